#include <unity/odd.hpp>

#ifdef ODD_LENGTH
#error "a macro outlives its header"
#endif

int main() {
  bool good = odd() == 42 && UNITY_VERSION_MINOR == 80;
#if defined(ODD_WISH) || defined(ODD_OTHER_WISH)
  good = good && wished() == 40;
#endif
  return good ? 0 : 1;
}
