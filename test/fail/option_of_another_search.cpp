// expect: no member named [^ ]*checkpoint
// Passes an option of backtracking to a beam search, which has no checkpoints.
#include <unity/search/beam.hpp>

int main() {
  unity::beam_options o;
  o.checkpoint = "file";
}
