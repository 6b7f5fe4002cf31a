#pragma once
#include <boost/config.hpp>
