// A bfloat16 as bits (the upper half of a 32-bit float), for compilers without this type.
struct Bfloat16 {
  uint16_t bits;
  explicit Bfloat16(float number) {
    uint32_t word;
    std::memcpy(&word, &number, sizeof word);
    bits = uint16_t((word + 0x7FFF + (word >> 16 & 1)) >> 16);  // to nearest, ties to even
  }
  explicit operator double() const {
    const uint32_t word = uint32_t(bits) << 16;
    float number;
    std::memcpy(&number, &word, sizeof number);
    return number;
  }
};
