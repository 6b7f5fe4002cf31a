#include <unity/search.hpp>

int main() { return unity::beam_options{}.width > 0 ? 0 : 1; }
