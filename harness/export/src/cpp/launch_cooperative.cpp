template <class... Args>
static hipError_t launch_cooperative(hipFunction_t kernel, dim3 grid, dim3 block, unsigned shared, hipStream_t stream, Args... args) {
  void* pointers[sizeof...(args) + 1] = {&args...};
  return hipModuleLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, pointers);
}
