inline constexpr int unguarded = 1;
