// expect: no member named [^ ]*checkpoint
// An option of backtracking, told to a beam, which has no checkpoints.
#include <unity/search/beam.hpp>

int main() {
  unity::beam_options o;
  o.checkpoint = "file";
}
