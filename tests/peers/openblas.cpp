// Stands in for OpenBLAS: what the suite calls, adding one by one, so that only the caller can be
// wrong.
#include <cmath>

namespace {

int threads = 2;

template <class T, class F>
T add(int n, F term) {
  T sum = 0;
  for (int i = 0; i < n; ++i) sum += term(i);
  return sum;
}

template <class T>
T sum(int n, const T* x, int step) {
  return add<T>(n, [=](int i) { return x[i * step]; });
}
template <class T>
T asum(int n, const T* x, int step) {
  return add<T>(n, [=](int i) { return std::fabs(x[i * step]); });
}
template <class T>
T dot(int n, const T* x, int x_step, const T* y, int y_step) {
  return add<T>(n, [=](int i) { return x[i * x_step] * y[i * y_step]; });
}

template <class T>
T nrm2(int n, const T* x, int step) {
  return std::sqrt(dot(n, x, step, x, step));
}
template <class T>
unsigned long amax(int n, const T* x, int step) {
  int at = 0;
  for (int i = 1; i < n; ++i)
    if (std::fabs(x[i * step]) > std::fabs(x[at * step])) at = i;
  return static_cast<unsigned long>(at);
}

// Row-major, as 101; 112 is a transposed operand.
template <class T>
void gemm(int order, int left, int right, int m, int n, int k, T alpha, const T* a, int a_step,
          const T* b, int b_step, T beta, T* c, int c_step) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      c[i * c_step + j] =
          order == 101 && beta == 0
              ? alpha * add<T>(k,
                               [=](int p) {
                                 return a[left == 112 ? p * a_step + i : i * a_step + p] *
                                        b[right == 112 ? j * b_step + p : p * b_step + j];
                               })
              : -1;
}

}  // namespace

extern "C" {
const char* openblas_get_config() { return "a stand-in"; }
int openblas_get_num_threads() { return threads; }
void openblas_set_num_threads(int n) { threads = n; }
int openblas_get_parallel() { return 1; }  // threads of its own
float cblas_ssum(int n, const float* x, int step) { return sum(n, x, step); }
double cblas_dsum(int n, const double* x, int step) { return sum(n, x, step); }
float cblas_sasum(int n, const float* x, int step) { return asum(n, x, step); }
double cblas_dasum(int n, const double* x, int step) { return asum(n, x, step); }
float cblas_sdot(int n, const float* x, int i, const float* y, int j) { return dot(n, x, i, y, j); }
double cblas_ddot(int n, const double* x, int i, const double* y, int j) {
  return dot(n, x, i, y, j);
}
float cblas_snrm2(int n, const float* x, int step) { return nrm2(n, x, step); }
double cblas_dnrm2(int n, const double* x, int step) { return nrm2(n, x, step); }
void cblas_sgemm(int order, int left, int right, int m, int n, int k, float alpha, const float* a,
                 int a_step, const float* b, int b_step, float beta, float* c, int c_step) {
  gemm(order, left, right, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step);
}
void cblas_dgemm(int order, int left, int right, int m, int n, int k, double alpha, const double* a,
                 int a_step, const double* b, int b_step, double beta, double* c, int c_step) {
  gemm(order, left, right, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step);
}
unsigned long cblas_isamax(int n, const float* x, int step) { return amax(n, x, step); }
unsigned long cblas_idamax(int n, const double* x, int step) { return amax(n, x, step); }
}
