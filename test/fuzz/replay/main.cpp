// Feeds every file of the folders named on the command line to a fuzz target, without libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      std::fprintf(stderr, "%s: not there; expected a folder of inputs\n", argv[i]);
      return 1;
    }
    for (const auto& entry : std::filesystem::directory_iterator{argv[i]}) {
      std::ifstream file{entry.path(), std::ios::binary};
      const std::vector<char> text{std::istreambuf_iterator<char>{file}, {}};
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      std::printf("%s\n", entry.path().filename().c_str());
      std::fflush(stdout);  // the last name printed is the input that crashed
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++count;
    }
  }
  if (count == 0) {
    std::fputs("no inputs; expected at least one\n", stderr);
    return 1;
  }
  return 0;
}
