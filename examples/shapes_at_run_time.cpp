#include <bitfold/cpu.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace bitfold;
  std::vector<float> pixels(8 * 3 * 32 * 32);  // 8 images of 3 planes
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = 1.0f / static_cast<float>(i + 1);
  const view x = row_major(dtype::f32, pixels.data(), {8, 3, 32, 32});
  const auto mean = make_reduction(op_id::mean, method_id::tree, dtype::f32);
  const auto top = make_reduction(op_id::max, {}, dtype::f32);

  const reduction both[] = {mean, top};  // of each plane of all images, in one pass
  const int axes[] = {0, 2, 3};
  std::vector<float> means(3), tops(3);  // result_extents(x, nullptr, axes) is {3}
  void* const out[] = {means.data(), tops.data()};
  cpu::reduce(both, x, nullptr, axes, out);
  std::cout << means[2] << " " << tops[2] << "\n";

  std::vector<float> images(8);  // of each image; image 5 alone has the same bits
  float alone;
  cpu::reduce(mean, x, {1, 2, 3}, images.data());
  cpu::reduce(mean, sliced(x, 0, 5, 1), {1, 2, 3}, &alone);
  if (alone != images[5]) return 1;

  const window pool[] = {{.axis = 2, .size = 2, .stride = 2}, {.axis = 3, .size = 2, .stride = 2}};
  std::vector<float> pooled(8 * 3 * 16 * 16);
  cpu::reduce(top, windows(x, pool), {4, 5}, pooled.data());
  const window padded[] = {{.axis = 2, .size = 3, .stride = 2, .padding = 1},
                           {.axis = 3, .size = 3, .stride = 2, .padding = 1}};
  void* const onto[] = {pooled.data()};  // windows_extents(x, padded) is {8, 3, 16, 16}, too
  cpu::reduce_windows({&mean, 1}, x, padded, onto);

  const std::int64_t offsets[] = {0, 3, 3, 10};  // segments of 3, 0 and 7 elements
  std::vector<float> segments(3);
  void* const to[] = {segments.data()};
  cpu::reduce_segments({&mean, 1}, pixels.data(), nullptr, pixels.size(), offsets, to);

  const auto sum = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  const std::vector<std::int64_t> keys{2, 0, 2, 2, 1};  // index_add of the first 5 onto 4 zeros
  std::vector<float> bins(4);
  void* const into[] = {bins.data()};
  cpu::reduce_by_key({&sum, 1}, pixels.data(), nullptr, keys, bins.size(), into);
  std::cout << bins[0] << " " << bins[3] << "\n";
}
