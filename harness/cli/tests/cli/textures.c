/* Compares textures and surfaces of a released libamdhip64 with a sampler in double precision. The sampler follows the
 * formulas of the CUDA programming guide ("Texture Fetching"), as HIP does, and shares no code with the device.
 *
 * The argument is the architecture. Prints a line per kind of texture; the exit status is the number that differ. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int x, y, z, w, f; } Channel;
typedef struct {
  int type;
  union {
    void *array;
    struct { void *at; Channel desc; size_t bytes; } linear;
    struct { void *at; Channel desc; size_t width, height, pitch; } pitched;
    char room[64];
  } of;
} Resource;
typedef struct {
  int address[3], filter, read, srgb;
  float border[4];
  int normalized;
  unsigned anisotropy;
  int mip_filter;
  float bias, least, most;
} Texture;
typedef struct { size_t x, y, z; } Three;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } Pitched;
typedef struct {
  void *from_array; Three from_at; Pitched from;
  void *to_array; Three to_at; Pitched to;
  Three extent; int kind;
} Copy3D;

enum { TO_DEVICE = 1, FROM_DEVICE = 2, LAYERED = 1, SURFACE = 2 };
enum { WRAP, CLAMP, MIRROR, BORDER };
enum { D1, D2, D3, D1_LAYERED, D2_LAYERED, FETCH, LOD, GRAD, GATHER };

static void *hip, *rtc;

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) { printf("no %s\n", name); exit(99); }
  return found;
}

static void must(int status, const char *what) {
  if (status) { printf("%s: %d\n", what, status); exit(98); }
}

#define HIP(name, types, ...) must(((int(*) types)find(hip, #name))(__VA_ARGS__), #name)
#define RTC(name, types, ...) must(((int(*) types)find(rtc, #name))(__VA_ARGS__), #name)

static const char *SOURCE =
    "__device__ void put(float4 *o, float4 v) { *o = v; }\n"
    "__device__ void put(float4 *o, int4 v) { *o = make_float4(v.x, v.y, v.z, v.w); }\n"
    "template <typename T> __device__ void sample(hipTextureObject_t t, const float4 *at, float4 *out, int n, int kind) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  float4 c = at[i];\n"
    "  T v;\n"
    "  if (kind == 0) v = tex1D<T>(t, c.x);\n"
    "  else if (kind == 1) v = tex2D<T>(t, c.x, c.y);\n"
    "  else if (kind == 2) v = tex3D<T>(t, c.x, c.y, c.z);\n"
    "  else if (kind == 3) v = tex1DLayered<T>(t, c.x, (int)c.z);\n"
    "  else if (kind == 4) v = tex2DLayered<T>(t, c.x, c.y, (int)c.z);\n"
    "  else v = tex1Dfetch<T>(t, (int)c.x);\n"
    "  put(out + i, v);\n"
    "}\n"
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define ARGS hipTextureObject_t t, const float4 *at, float4 *out, int n, int kind\n"
    "KERNEL floats(ARGS) { sample<float4>(t, at, out, n, kind); }\n"
    "KERNEL ints(ARGS) { sample<int4>(t, at, out, n, kind); }\n"
    "#ifdef MORE\n"
    "KERNEL more(ARGS) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  float4 c = at[i];\n"
    "  if (kind == 6) out[i] = tex2DLod<float4>(t, c.x, c.y, 0.f);\n"
    "  else if (kind == 7) out[i] = tex2DGrad<float4>(t, c.x, c.y, make_float2(.1f, .2f), make_float2(.3f, .4f));\n"
    /* The second component: HIP's header counts them from 1, where CUDA counts from 0. */
    "  else out[i] = tex2Dgather<float4>(t, c.x, c.y, 2);\n"
    "}\n"
    "#endif\n"
    "KERNEL write_bytes(hipSurfaceObject_t s, int w, int h) {\n"
    "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;\n"
    "  if (x >= w || y >= h) return;\n"
    "  uchar4 v = make_uchar4(x, y, x ^ y, 255 - x);\n"
    "  surf2Dwrite(v, s, x * 4, y);\n"
    "}\n"
    "KERNEL read_bytes(hipSurfaceObject_t s, uchar4 *out, int w, int h) {\n"
    "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;\n"
    "  if (x >= w || y >= h) return;\n"
    "  uchar4 v;\n"
    "  surf2Dread(&v, s, x * 4, y);\n"
    "  out[y * w + x] = v;\n"
    "}\n"
    "KERNEL add(hipSurfaceObject_t s, float *out, int w, int h, int d) {\n"
    "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;\n"
    "  if (x >= w || y >= h || z >= d) return;\n"
    "  float v;\n"
    "  surf3Dread(&v, s, x * 4, y, z);\n"
    "  out[(z * h + y) * w + x] = v;\n"
    "  surf3Dwrite(v + 1.f, s, x * 4, y, z);\n"
    "}\n";

static void *module;

static void launch(const char *name, unsigned gx, unsigned gy, unsigned gz, void **arguments) {
  void *function;
  HIP(hipModuleGetFunction, (void **, void *, const char *), &function, module, name);
  HIP(hipModuleLaunchKernel,
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
      function, gx, gy, gz, 64, 1, 1, 0, NULL, arguments, NULL);
  HIP(hipDeviceSynchronize, (void));
}

static void compile(const char *arch) {
  void *program;
  char option[64];
  /* GFX90A has no instructions that name a level, derivatives, or a gather. */
  const char *more = strcmp(arch, "gfx90a") ? "-DMORE" : "-DLESS";
  const char *options[] = {option, more};
  size_t size;
  snprintf(option, sizeof option, "--offload-arch=%s", arch);
  RTC(hiprtcCreateProgram, (void **, const char *, const char *, int, void *, void *), &program, SOURCE, "textures.hip", 0, NULL,
      NULL);
  if (((int (*)(void *, int, const char **))find(rtc, "hiprtcCompileProgram"))(program, 2, options)) {
    RTC(hiprtcGetProgramLogSize, (void *, size_t *), program, &size);
    char *log = calloc(size + 1, 1);
    RTC(hiprtcGetProgramLog, (void *, char *), program, log);
    printf("%s\n", log);
    exit(97);
  }
  RTC(hiprtcGetCodeSize, (void *, size_t *), program, &size);
  char *code = malloc(size);
  RTC(hiprtcGetCode, (void *, char *), program, code);
  HIP(hipModuleLoadData, (void **, const void *), &module, code);
}

/* Pseudo-random numbers that are the same in every run. */
static uint32_t state = 12345;
static uint32_t draw(void) { return state = state * 1664525u + 1013904223u, state >> 8; }
static double part(void) { return draw() / 16777216.0; }

/* Format and size of an image. All components have the same width. */
typedef struct { int kind, width, height, depth, components, bits, format; } Shape;
enum { SIGNED, UNSIGNED, FLOATS };

static int bytes_of(Shape s) { return s.components * s.bits / 8; }
static int height_of(Shape s) { return s.height ? s.height : 1; }
static int depth_of(Shape s) { return s.depth ? s.depth : 1; }

static Channel channel(Shape s) {
  Channel c = {s.bits, s.components > 1 ? s.bits : 0, s.components > 2 ? s.bits : 0, s.components > 2 ? s.bits : 0, s.format};
  return c;
}

static double component(Shape s, const uint8_t *data, int x, int y, int z, int c, int normalized) {
  const uint8_t *at = data + (((size_t)z * height_of(s) + y) * s.width + x) * bytes_of(s) + c * s.bits / 8;
  if (c >= s.components) return c == 3 ? 1 : 0;
  uint32_t raw = 0;
  memcpy(&raw, at, s.bits / 8);
  if (s.format == FLOATS) {
    if (s.bits == 32) { float f; memcpy(&f, &raw, 4); return f; }
    int exponent = raw >> 10 & 31;
    double m = raw & 1023, v = exponent ? ldexp(m + 1024, exponent - 25) : ldexp(m, -24);
    return raw >> 15 ? -v : v;
  }
  double most = s.format == UNSIGNED ? ldexp(1, s.bits) - 1 : ldexp(1, s.bits - 1) - 1;
  double value = raw;
  if (s.format == SIGNED && value > most) value -= ldexp(1, s.bits);
  return !normalized ? value : value / most < -1 ? -1 : value / most;
}

/* Returns the texel to which an address mode maps an index, which may be outside of the row; -1 is the border. */
static int wrapped(long i, int size, int mode) {
  if (mode == WRAP) return (int)(i - size * (long)floor((double)i / size));
  if (mode == MIRROR) {
    long turn = (long)floor((double)i / size), in = i - size * turn;
    return (int)(turn % 2 ? size - 1 - in : in);
  }
  if (mode == BORDER) return i < 0 || i >= size ? -1 : (int)i;
  return i < 0 ? 0 : i >= size ? size - 1 : (int)i;
}

static double lookup(Shape s, const uint8_t *data, Texture t, long x, long y, long z, int c) {
  int layered = s.kind == D1_LAYERED || s.kind == D2_LAYERED;
  int ix = wrapped(x, s.width, t.address[0]), iy = 0, iz = 0;
  if (s.height) iy = wrapped(y, s.height, t.address[0]);
  if (layered) iz = z < 0 ? 0 : z >= s.depth ? s.depth - 1 : (int)z;
  else if (s.depth) iz = wrapped(z, s.depth, t.address[0]);
  /* The border has the colour 0. Components that the format lacks have the same values as in any texel. */
  if (ix < 0 || iy < 0 || iz < 0) return c >= s.components && c == 3 ? 1 : 0;
  return component(s, data, ix, iy, iz, c, t.read);
}

/* Finds the texel left of a coordinate, and the weight of its right neighbour, which has eight fractional bits. */
static void corner(double at, int size, Texture t, long *texel, double *part_of_next) {
  if (t.normalized) at *= size;
  if (!t.filter) { *texel = (long)floor(at); *part_of_next = 0; return; }
  at -= 0.5;
  *texel = (long)floor(at);
  *part_of_next = nearbyint((at - floor(at)) * 256) / 256;
}

static double expected(Shape s, const uint8_t *data, Texture t, const float *at, int c) {
  long x, y = 0, z = 0;
  double a, b = 0, g = 0;
  int layered = s.kind == D1_LAYERED || s.kind == D2_LAYERED;
  corner(at[0], s.width, t, &x, &a);
  if (s.height) corner(at[1], s.height, t, &y, &b);
  if (layered) z = (long)at[2];
  else if (s.depth) corner(at[2], s.depth, t, &z, &g);
  double sum = 0;
  for (int k = 0; k < 8; k++) {
    double weight = (k & 1 ? a : 1 - a) * (k & 2 ? b : 1 - b) * (k & 4 ? g : 1 - g);
    if (weight) sum += weight * lookup(s, data, t, x + (k & 1), y + (k >> 1 & 1), z + (k >> 2), c);
  }
  return sum;
}

enum { POINTS = 192 };

/* Reads a texture at random points, and compares the results with those of the sampler. */
static int compare(const char *what, Shape s, const uint8_t *data, uint64_t texture, Texture t, int kind) {
  float at[POINTS][4], got[POINTS][4];
  for (int i = 0; i < POINTS; i++) {
    int sizes[3] = {s.width, s.height, s.depth};
    for (int k = 0; k < 3; k++) {
      /* Points in, around and far from the image, at edges and centres of texels. Without a filter, no point is at the
       * edge of a texel, where rounding would decide. */
      double texel = (double)(draw() % (3 * sizes[k] + 1)) - sizes[k];
      double in = t.filter ? (i % 4 ? part() : (i / 4 % 3) * 0.5) : 0.0625 + 0.875 * part();
      at[i][k] = (float)((texel + in) / (t.normalized && sizes[k] ? sizes[k] : 1));
    }
    if (s.kind == D1_LAYERED || s.kind == D2_LAYERED) at[i][2] = draw() % (s.depth + 2) - 1.f;
    if (kind == FETCH) at[i][0] = draw() % s.width;
    at[i][3] = 0;
  }
  void *points, *out;
  int n = POINTS;
  HIP(hipMalloc, (void **, size_t), &points, sizeof at);
  HIP(hipMalloc, (void **, size_t), &out, sizeof got);
  HIP(hipMemcpy, (void *, const void *, size_t, int), points, at, sizeof at, TO_DEVICE);
  void *arguments[] = {&texture, &points, &out, &n, &kind};
  int integers = s.format != FLOATS && !t.read;
  launch(kind >= LOD ? "more" : integers ? "ints" : "floats", (POINTS + 63) / 64, 1, 1, arguments);
  HIP(hipMemcpy, (void *, const void *, size_t, int), got, out, sizeof got, FROM_DEVICE);
  HIP(hipFree, (void *), points);
  HIP(hipFree, (void *), out);
  for (int i = 0; i < POINTS; i++)
    for (int c = 0; c < 4; c++) {
      double right;
      if (kind == GATHER) {
        /* Component 1 of the texels around, from the left of the second row against the clock. */
        long x, y;
        double a, b;
        Texture linear = t;
        linear.filter = 1;
        corner(at[i][0], s.width, linear, &x, &a);
        corner(at[i][1], s.height, linear, &y, &b);
        right = lookup(s, data, t, x + (c == 1 || c == 2) + (a == 1), y + (c < 2) + (b == 1), 0, 1);
      } else {
        Texture as = t;
        if (kind == FETCH) as.filter = 0;
        right = expected(s, data, as, at[i], c);
      }
      if (!(fabs(got[i][c] - right) <= 1e-6 * (1 + fabs(right)))) {
        printf("%s: at %g %g %g component %d is %.9g, not %.9g\n", what, at[i][0], at[i][1], at[i][2], c, got[i][c], right);
        return 1;
      }
    }
  printf("ok %s\n", what);
  return 0;
}

static uint8_t *drawn(Shape s) {
  size_t n = (size_t)s.width * height_of(s) * depth_of(s) * s.components;
  uint8_t *data = malloc(n * s.bits / 8);
  for (size_t i = 0; i < n; i++) {
    uint32_t raw = draw() << 8 ^ draw();
    float f = (float)(200 * part() - 100);
    if (s.format == FLOATS && s.bits == 32) memcpy(&raw, &f, 4);
    if (s.format == FLOATS && s.bits == 16) raw = (raw & 0x83ff) | (10 + draw() % 10) << 10;
    /* A float holds whole numbers of 24 bits. */
    if (s.format != FLOATS && s.bits == 32) raw &= 0xffffff;
    memcpy(data + i * s.bits / 8, &raw, s.bits / 8);
  }
  return data;
}

static void *array_of(Shape s, const uint8_t *data, unsigned flags) {
  void *array;
  Channel desc = channel(s);
  size_t row = (size_t)s.width * bytes_of(s);
  if (!s.depth && s.kind != D1_LAYERED) {
    HIP(hipMallocArray, (void **, const Channel *, size_t, size_t, unsigned), &array, &desc, s.width, s.height, flags);
    HIP(hipMemcpy2DToArray, (void *, size_t, size_t, const void *, size_t, size_t, size_t, int), array, 0, 0, data, row, row,
        height_of(s), TO_DEVICE);
    return array;
  }
  Three extent = {s.width, s.height, s.depth};
  HIP(hipMalloc3DArray, (void **, const Channel *, Three, unsigned), &array, &desc, extent, flags);
  Copy3D copy = {0};
  copy.from = (Pitched){(void *)data, row, s.width, height_of(s)};
  copy.to_array = array;
  copy.extent = (Three){s.width, height_of(s), s.depth};
  copy.kind = TO_DEVICE;
  int status = ((int (*)(const Copy3D *))find(hip, "hipMemcpy3D"))(&copy);
  if (status && s.kind == D1_LAYERED) {
    /* ROCm 5.7 refuses copies to layers of one row by itself, and there is no other way to fill them. */
    HIP(hipFreeArray, (void *), array);
    return NULL;
  }
  must(status, "hipMemcpy3D");
  return array;
}

static const char *NAMES[] = {"1D", "2D", "3D", "1D layered", "2D layered", "fetch", "2D level", "2D derivatives", "2D gather"};
static const char *MODES[] = {"wrap", "clamp", "mirror", "border"};
static const char *FORMATS[] = {"int", "uint", "float"};

static int texture(Shape s, int filter, int address, int normalized, int read, int kind) {
  uint8_t *data = drawn(s);
  unsigned flags = s.kind == D1_LAYERED || s.kind == D2_LAYERED ? LAYERED : 0;
  void *array = array_of(s, data, flags);
  Resource resource = {0};
  resource.of.array = array;
  Texture t = {{address, address, address}, filter, read, 0, {0}, normalized, 0, 0, 0, 0, 0};
  uint64_t object;
  char what[128];
  snprintf(what, sizeof what, "%s %s%dx%d %s %s %s %s", NAMES[kind], FORMATS[s.format], s.bits, s.components, MODES[address],
           filter ? "linear" : "point", normalized ? "normalised" : "texels", read ? "as floats" : "as they are");
  if (!array) { printf("refused %s\n", what); free(data); return 0; }
  HIP(hipCreateTextureObject, (uint64_t *, const Resource *, const Texture *, const void *), &object, &resource, &t, NULL);
  int wrong = compare(what, s, data, object, t, kind);
  HIP(hipDestroyTextureObject, (uint64_t), object);
  HIP(hipFreeArray, (void *), array);
  free(data);
  return wrong;
}

static int in_memory(int pitched) {
  Shape s = {pitched ? D2 : D1, pitched ? 37 : 1000, pitched ? 11 : 0, 0, 2, 16, UNSIGNED};
  uint8_t *data = drawn(s);
  size_t row = (size_t)s.width * bytes_of(s), pitch = row;
  Resource resource = {0};
  void *at;
  if (pitched) {
    HIP(hipMallocPitch, (void **, size_t *, size_t, size_t), &at, &pitch, row, s.height);
    HIP(hipMemcpy2D, (void *, size_t, const void *, size_t, size_t, size_t, int), at, pitch, data, row, row, s.height, TO_DEVICE);
    resource.type = 3;
    resource.of.pitched.at = at;
    resource.of.pitched.desc = channel(s);
    resource.of.pitched.width = s.width, resource.of.pitched.height = s.height, resource.of.pitched.pitch = pitch;
  } else {
    HIP(hipMalloc, (void **, size_t), &at, row);
    HIP(hipMemcpy, (void *, const void *, size_t, int), at, data, row, TO_DEVICE);
    resource.type = 2;
    resource.of.linear.at = at;
    resource.of.linear.desc = channel(s);
    resource.of.linear.bytes = row;
  }
  int wrong = 0;
  for (int read = 0; read < 2; read++) {
    Texture t = {{CLAMP, CLAMP, CLAMP}, pitched && read, read, 0, {0}, pitched && read, 0, 0, 0, 0, 0};
    uint64_t object;
    HIP(hipCreateTextureObject, (uint64_t *, const Resource *, const Texture *, const void *), &object, &resource, &t, NULL);
    const char *what = pitched ? (read ? "pitched memory, linear" : "pitched memory") : read ? "linear memory as floats" : "linear memory";
    wrong += compare(what, s, data, object, t, pitched ? D2 : FETCH);
    HIP(hipDestroyTextureObject, (uint64_t), object);
  }
  HIP(hipFree, (void *), at);
  free(data);
  return wrong;
}

static int surfaces(void) {
  Shape s = {D2, 70, 9, 0, 4, 8, UNSIGNED};
  uint8_t *data = drawn(s), *back = malloc(70 * 9 * 4);
  void *array = array_of(s, data, SURFACE), *out;
  Resource resource = {0};
  resource.of.array = array;
  uint64_t surface;
  int w = s.width, h = s.height, wrong = 0;
  HIP(hipCreateSurfaceObject, (uint64_t *, const Resource *), &surface, &resource);
  void *writes[] = {&surface, &w, &h};
  launch("write_bytes", 2, h, 1, writes);
  HIP(hipMemcpy2DFromArray, (void *, size_t, const void *, size_t, size_t, size_t, size_t, int), back, w * 4, array, 0, 0, w * 4, h,
      FROM_DEVICE);
  for (int k = 0; k < 2; k++) {
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        uint8_t right[4] = {x, y, x ^ y, 255 - x};
        if (memcmp(back + (y * w + x) * 4, right, 4)) wrong |= 1 << k;
      }
    if (k) break;
    memset(back, 0, w * h * 4);
    HIP(hipMalloc, (void **, size_t), &out, w * h * 4);
    void *reads[] = {&surface, &out, &w, &h};
    launch("read_bytes", 2, h, 1, reads);
    HIP(hipMemcpy, (void *, const void *, size_t, int), back, out, w * h * 4, FROM_DEVICE);
    HIP(hipFree, (void *), out);
  }
  printf(wrong & 1 ? "surface written: wrong\n" : "ok surface written\n");
  printf(wrong & 2 ? "surface read: wrong\n" : "ok surface read\n");
  HIP(hipDestroySurfaceObject, (uint64_t), surface);
  HIP(hipFreeArray, (void *), array);
  free(data);
  free(back);
  return (wrong & 1) + (wrong >> 1);
}

static int volume(void) {
  Shape s = {D3, 13, 5, 4, 1, 32, FLOATS};
  int w = s.width, h = s.height, d = s.depth, n = w * h * d, wrong = 0;
  uint8_t *data = drawn(s);
  float *read = malloc(n * 4), *after = malloc(n * 4);
  void *array = array_of(s, data, SURFACE), *out;
  Resource resource = {0};
  resource.of.array = array;
  uint64_t surface;
  HIP(hipCreateSurfaceObject, (uint64_t *, const Resource *), &surface, &resource);
  HIP(hipMalloc, (void **, size_t), &out, n * 4);
  void *arguments[] = {&surface, &out, &w, &h, &d};
  launch("add", 1, h, d, arguments);
  HIP(hipMemcpy, (void *, const void *, size_t, int), read, out, n * 4, FROM_DEVICE);
  Copy3D copy = {0};
  copy.from_array = array;
  copy.to = (Pitched){after, w * 4, w, h};
  copy.extent = (Three){w, h, d};
  copy.kind = FROM_DEVICE;
  HIP(hipMemcpy3D, (const Copy3D *), &copy);
  for (int i = 0; i < n; i++) {
    float was;
    memcpy(&was, data + i * 4, 4);
    wrong |= read[i] != was || after[i] != was + 1.f;
  }
  printf(wrong ? "volume: wrong\n" : "ok volume read and written\n");
  HIP(hipDestroySurfaceObject, (uint64_t), surface);
  HIP(hipFree, (void *), out);
  HIP(hipFreeArray, (void *), array);
  free(data);
  free(read);
  free(after);
  return wrong;
}

int main(int count, char **arguments) {
  static const char *names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  for (int i = 0; i < 3 && !hip; i++) hip = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  if (!hip || count < 2) { printf("no libamdhip64, or no architecture\n"); return 99; }
  rtc = dlopen("libhiprtc.so.7", RTLD_NOW);
  if (!rtc) rtc = hip;
  int wrong = 0;
  /* What HIP says of architectures without images is all that there is to see on them. */
  Channel one = {32, 0, 0, 0, FLOATS};
  void *array = NULL;
  HIP(hipSetDevice, (int), 0);
  int status = ((int (*)(void **, const Channel *, size_t, size_t, unsigned))find(hip, "hipMallocArray"))(&array, &one, 8, 8, 0);
  if (status) { printf("no images: %d\n", status); return 0; }
  HIP(hipFreeArray, (void *), array);
  const char *arch = arguments[1];
  int gfx90a = !strcmp(arch, "gfx90a");
  compile(arch);
  Shape shapes[] = {
      {D1, 33, 0, 0, 1, 32, FLOATS},    {D2, 29, 17, 0, 4, 8, UNSIGNED},  {D3, 9, 7, 5, 2, 16, SIGNED},
      {D1_LAYERED, 40, 0, 3, 4, 32, FLOATS}, {D2_LAYERED, 21, 13, 4, 1, 8, SIGNED}, {D2, 64, 8, 0, 2, 16, FLOATS},
      {D2, 16, 16, 0, 1, 16, UNSIGNED}, {D2, 5, 3, 0, 4, 32, FLOATS},
  };
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    Shape s = shapes[i];
    int integers = s.format != FLOATS;
    for (int address = WRAP; address <= BORDER; address++) {
      int normalized = address == WRAP || address == MIRROR || i % 2;
      wrong += texture(s, 0, address, normalized, 0, s.kind);
      /* HIP refuses it there. */
      if (!(gfx90a && s.depth)) wrong += texture(s, 1, address, normalized, integers, s.kind);
    }
  }
  Shape integers[] = {{D2, 31, 4, 0, 4, 32, SIGNED}, {D1, 100, 0, 0, 2, 32, UNSIGNED}, {D2, 12, 12, 0, 1, 8, UNSIGNED}};
  for (int i = 0; i < 3; i++) wrong += texture(integers[i], 0, i % 2 ? CLAMP : WRAP, !(i % 2), 0, integers[i].kind);
  for (int kind = LOD; kind <= GATHER && !gfx90a; kind++) {
    wrong += texture(shapes[1], 1, MIRROR, 1, 1, kind);
    wrong += texture(shapes[5], 1, CLAMP, 0, 0, kind);
  }
  wrong += in_memory(0) + in_memory(1) + surfaces() + volume();
  printf("%d differ\n", wrong);
  return wrong;
}
