#include <bitfold/reduce.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace bitfold;
  std::vector<float> pixels(8 * 3 * 32 * 32);  // 8 images of 3 planes
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = 1.0f / static_cast<float>(i + 1);
  const auto x = row_major(pixels, {8, 3, 32, 32});  // a view_of<float>

  // Of each plane of all images, in one pass: two result_array<float>, of extents {3}.
  const auto [mean, top] = reduce(x, axes{0, 2, 3}, ops::mean, ops::max);
  std::cout << mean(2) << " " << top(2) << "\n";

  std::vector<float> images(8);  // of each image; image 5 alone has the same bits
  reduce(x, axes{1, 2, 3}, into(images), ops::mean);
  if (reduce(sliced(x, 0, 5, 1), axes{1, 2, 3}, ops::mean)[0] != images[5]) return 1;

  const by_window pool{{.axis = 2, .size = 2, .stride = 2}, {.axis = 3, .size = 2, .stride = 2}};
  const auto pooled = reduce(x, pool, ops::max);
  std::cout << pooled(7, 2, 15, 15) << "\n";  // of extents {8, 3, 16, 16}

  const std::vector<std::int64_t> offsets{0, 3, 3, 10};  // segments of 3, 0 and 7 elements
  for (const float sum : reduce(pixels, by_segment{offsets}, ops::sum)) std::cout << sum << " ";

  const std::span<const float> few(pixels.data(), 5);
  const std::vector<std::int64_t> keys{2, 0, 2, 2, 1};  // index_add of these 5 onto 4 zeros
  const auto bins = reduce(few, by_key{keys, 4}, ops::sum);
  std::cout << bins[0] << " " << bins[3] << "\n";

  // Each image with the first one: they broadcast, to extents {8, 3}.
  const auto dots = reduce(pairs(x, sliced(x, 0, 0, 1)), axes{2, 3}, ops::dot);
  std::cout << dots(0, 0) << " " << reduce(dots.view(), axes{0}, ops::max)[0] << "\n";
}
