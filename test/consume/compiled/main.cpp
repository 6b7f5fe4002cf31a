#include <unity/machine/device_models.hpp>

int main() { return unity::machine::find_model("t4") ? 0 : 1; }
