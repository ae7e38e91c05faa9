// Every buffer lies between guard bytes that nothing may touch, and starts as poison.
constexpr size_t GUARD = 256;
constexpr unsigned char GUARD_BYTE = 0x5C, POISON = 0xA5;
