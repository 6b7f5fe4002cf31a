#include <unity/cost/kernel_model.hpp>

int main() { return unity::id_of_board("Tesla-T4") == "t4" ? 0 : 1; }
