#include <unity/hardware/kernel_model.hpp>

int main() { return unity::hardware::id_of_board("Tesla-T4") == "t4" ? 0 : 1; }
