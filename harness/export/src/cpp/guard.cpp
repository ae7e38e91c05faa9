// Every buffer lies between guard bytes that must not change, and is first filled with a poison value.
constexpr size_t GUARD = 256;
constexpr unsigned char GUARD_BYTE = 0x5C, POISON = 0xA5;
