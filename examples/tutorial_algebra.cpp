// Tutorial 4: a new algebra. Audio signal chains of gains, delays and mixers, searched for the least memory.
//
// run:
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/search.hpp>

using unity::attribute, unity::kind_id, unity::op_signature, unity::value_id;

// An operator with all its parameters: regular, and with a hash that is the same in every process.
enum class effects : std::uint32_t { source, gain, delay, mix };
struct effect {
  effects kind = effects::source;
  std::int64_t amount = 0;  // source: channels; gain: factor; delay: samples
  friend bool operator==(const effect&, const effect&) = default;
};
template <>
struct std::hash<effect> {
  std::size_t operator()(const effect& e) const {
    return unity::hash_combine(static_cast<std::uint64_t>(e.kind), static_cast<std::uint64_t>(e.amount));
  }
};

// The operators that rules may name, in the order of `effects`.
const std::vector<op_signature> signatures{
    {.name = "source", .operands = 0, .attributes = {{.name = "channels"}}},
    {.name = "gain", .operands = 1, .attributes = {{.name = "by"}}},
    {.name = "delay", .operands = 1, .attributes = {{.name = "samples"}}},
    {.name = "mix", .operands = 2, .commutative = true},
};

class signal_chains {
 public:
  using op_type = effect;
  using value_type = std::int64_t;  // the number of channels of an edge

  // The types of the results, or nothing if the operands do not fit.
  std::optional<std::vector<std::int64_t>> infer(const effect& e, std::span<const std::int64_t> channels) const {
    const bool counted = signature(kind_of(e)).operands.accepts(channels.size());
    const bool agree = std::ranges::adjacent_find(channels, std::not_equal_to{}) == channels.end();
    if (!counted || !agree || (e.kind == effects::delay && e.amount < 0)) {
      return std::nullopt;
    }
    return std::vector{e.kind == effects::source ? e.amount : channels[0]};
  }

  // The kinds of operators.
  std::size_t kind_count() const { return signatures.size(); }
  const op_signature& signature(kind_id kind) const { return signatures[kind.index()]; }
  std::optional<kind_id> find_kind(std::string_view name) const {
    const auto found = std::ranges::find(signatures, name, &op_signature::name);
    const auto place = static_cast<std::size_t>(found - signatures.begin());
    return place < kind_count() ? std::optional{kind_id{place}} : std::nullopt;
  }

  // The parts of an operator, and the operator of given parts.
  kind_id kind_of(const effect& e) const { return kind_id{static_cast<std::uint32_t>(e.kind)}; }
  unity::attribute_list attributes_of(const effect& e) const {
    return e.kind == effects::mix ? unity::attribute_list{} : unity::attribute_list{{e.amount}};
  }
  std::optional<effect> make(kind_id kind, std::span<const attribute> attributes) const {
    return effect{static_cast<effects>(kind.index()), attributes.empty() ? 0 : attributes[0][0]};
  }

  // Facts about values that rules may ask for, such as size(?x, 1). These rules need none.
  std::optional<int> find_measure(std::string_view) const { return std::nullopt; }
  std::optional<attribute> measure(int, std::int64_t, std::span<const std::int64_t>) const { return std::nullopt; }
};
static_assert(unity::pattern_algebra<signal_chains>);

constexpr auto laws = R"(
  rule longer_delay  delay{samples=?m}(delay{samples=?n}(?x)) => delay{samples=?m + ?n}(?x)
  rule no_delay      delay{samples=0}(?x) => ?x
  rule taps          mix(delay{samples=?n}(?x), delay{samples=?m}(?y))
                  => delay{samples=?n}(mix(?x, delay{samples=?m - ?n}(?y))) if ?m >= ?n
  rule one_gain      gain{by=?g}(gain{by=?h}(?x)) => gain{by=?g * ?h}(?x)
  rule common_gain   mix(gain{by=?g}(?x), gain{by=?g}(?y)) => gain{by=?g}(mix(?x, ?y))
  rule late_gain     delay{samples=?n}(gain{by=?g}(?x)) == gain{by=?g}(delay{samples=?n}(?x))
)";

// Words of memory, and operations per sample.
struct footprint {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const effect& e, std::span<const std::int64_t>, std::span<const std::int64_t> channels) const {
    switch (e.kind) {
      case effects::source: return 0;
      case effects::delay: return e.amount * channels[0];
      case effects::gain:
      case effects::mix: return channels[0];
    }
    return 0;
  }
  unity::cost_value objective(std::int64_t total) const { return total; }
};

using chain = unity::compact_graph<effect, std::int64_t>;

// A stereo signal and its echoes after 100, 250 and 400 samples, each from a separate delay line.
chain echoes() {
  const signal_chains algebra;
  chain g;
  const auto add = [&](effect e, const std::vector<value_id>& operands) {
    const std::vector<std::int64_t> channels(operands.size(), 2);
    return g.results(g.add_node(e, operands, algebra.infer(e, channels).value()))[0];
  };
  const auto x = add({effects::source, 2}, {});
  const auto echo = [&](std::int64_t after) { return add({effects::delay, after}, {add({effects::gain, 3}, {x})}); };
  const auto all =
      add({effects::mix}, {x, add({effects::mix}, {echo(100), add({effects::mix}, {echo(250), echo(400)})})});
  g.set_outputs(std::array{all});
  return g;
}

// The output of one channel of the chain for a signal.
std::vector<std::int64_t> play(const chain& g, const std::vector<std::int64_t>& signal) {
  std::vector<std::vector<std::int64_t>> values;  // nodes come in order, with one result each
  for (const auto n : unity::node_ids(g)) {
    const auto [kind, amount] = g.operation(n);
    const auto operands = g.operands(n);
    auto y = kind == effects::source ? signal : values[operands[0].index()];
    for (std::size_t i = y.size(); i-- > 0;) {
      const auto delayed = kind == effects::delay ? i - static_cast<std::size_t>(amount) : i;
      y[i] = delayed >= y.size() ? 0 : y[delayed];
      y[i] *= kind == effects::gain ? amount : 1;
      y[i] += kind == effects::mix ? values[operands[1].index()][i] : 0;
    }
    values.push_back(y);
  }
  return values[g.outputs()[0].index()];
}

int main() {
  const signal_chains algebra;
  const auto before = echoes();
  unity::rewrite_space space{algebra, footprint{}, unity::compile_rules(algebra, unity::parse_rules(laws)), before};
  const auto found = unity::exact(space);
  const auto after = space.graph(found.best);
  fmt::print("{} -> {}, {} after {} chains\n", space.cost(space.initial()), found.cost, found.stopped,
             found.counts.expanded);

  unity::random_engine random{1};
  std::vector<std::int64_t> noise(1000);
  std::ranges::generate(noise, [&] { return random.between(-100, 100); });
  const bool equal = play(before, noise) == play(after, noise);
  fmt::print("{}", equal ? "both chains sound the same\n" : "the chains differ\n");
  return equal && found.cost < 2 * 400 + 10 ? 0 : 1;  // the longest delay line alone, in stereo
}
