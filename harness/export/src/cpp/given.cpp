// Memory for a value that a function reads or writes through a pointer.
struct Given {
  alignas(16) unsigned char bytes[4096] = {};
  template <class T>
  T* at() {
    return reinterpret_cast<T*>(bytes);
  }
  template <class T>
  T as(size_t offset = 0) const {
    T value{};
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
  template <class T>
  Given& put(size_t offset, const T& value) {
    std::memcpy(bytes + offset, &value, sizeof value);
    return *this;
  }
};
