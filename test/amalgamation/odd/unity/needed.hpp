#pragma once

inline int needed() { return 40; }
