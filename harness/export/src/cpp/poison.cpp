constexpr unsigned char POISON = 0xA5;  // initial value of every byte of a buffer
