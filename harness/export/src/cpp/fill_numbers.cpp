// Whole numbers from -2 to 2: their products and sums are exact in every type and order.
template <class T>
static void fill_numbers(void* to, size_t bytes, uint64_t seed) {
  std::vector<unsigned char> words(bytes / sizeof(T) * 4);
  fill_pattern(words.data(), words.size(), seed);
  for (size_t i = 0; i < bytes / sizeof(T); i++) {
    const T number = T(float(words[4 * i + 2] % 5) - 2);
    std::memcpy(static_cast<unsigned char*>(to) + i * sizeof(T), &number, sizeof(T));
  }
}
