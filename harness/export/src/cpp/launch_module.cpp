template <class... Args>
static hipError_t launch(hipFunction_t kernel, dim3 grid, dim3 block, hipStream_t stream, Args... args) {
  void* pointers[] = {&args...};
  return hipModuleLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, pointers, nullptr);
}
