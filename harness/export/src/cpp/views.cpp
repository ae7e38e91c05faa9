template <class T>
static T* as(std::vector<unsigned char>& bytes, size_t offset = 0) {
  return reinterpret_cast<T*>(bytes.data() + offset);
}
