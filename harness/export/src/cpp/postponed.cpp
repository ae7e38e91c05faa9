// Injected fault: calls that are made only after the next graph launch.
static std::vector<std::function<void()>> postponed;

static void make_postponed() {
  for (const auto& call : postponed) call();
  postponed.clear();
}
