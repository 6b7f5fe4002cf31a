// What a single file has to get right: text that looks like an include, wishes, macros that end, a circle.
#pragma once
#include <unity/core/config.hpp>
#include <unity/text.hpp>  // and why

#ifdef ODD_WISH
#include <unity/wished.hpp>
#endif
#ifdef ODD_OTHER_WISH
# include <unity/wished.hpp>
#endif
#ifdef ODD_UNIX
#include <odd/of_another_system.h>
#endif
#include <unity/circle.hpp>

/* Not an include:
#include <unity/no_such_header.hpp>
*/
inline int odd() { return same_text() ? needed() + circle() : 0; }
