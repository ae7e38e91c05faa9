constexpr unsigned char POISON = 0xA5;  // what a fresh buffer holds
