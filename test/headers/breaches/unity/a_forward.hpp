#pragma once

namespace unity::breaches {

struct announced;
struct widget;

}  // namespace unity::breaches
