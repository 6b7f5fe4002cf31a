#include <unity/machine/gpu_models.hpp>

int main() { return unity::machine::find_gpu("t4") ? 0 : 1; }
