// A 16-bit float as bits, for compilers without this type. Whole numbers need no denormals, infinities or NaNs.
struct Half {
  uint16_t bits;
  explicit Half(float number) {
    uint32_t word;
    std::memcpy(&word, &number, sizeof word);
    const uint32_t sign = word >> 16 & 0x8000, rest = word & 0x7FFFFFFF;
    const uint32_t rounded = (rest + 0xFFF + (rest >> 13 & 1)) >> 13;  // to nearest, ties to even
    bits = uint16_t(rest == 0 ? sign : sign | (rounded - (112 << 10)));
  }
  explicit operator double() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7FFF;
    const uint32_t word = rest == 0 ? sign : sign | ((rest << 13) + (112u << 23));
    float number;
    std::memcpy(&number, &word, sizeof number);
    return number;
  }
};
