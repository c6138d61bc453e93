// bitfold matmul, as a user meets it.
#include <bitfold/matmul.hpp>

#include "cli.hpp"
#include "io/digest.hpp"

namespace {

using namespace bitfold;
using namespace cli;

const std::vector<float> left{1, 2, 3, 4, 5, 6}, right{1, 0, -1, 2, 0.5f, 1};

std::string digest_of(const void* data, std::size_t size) {
  io::digest d;
  d.add(data, size);
  return d.hex();
}

}  // namespace

TEST_CASE("matmul writes the product of two files") {
  const bytes::directory dir;
  const std::string a = dir.write("a.npy", bytes::npy("<f4", "(2, 3)", bytes::of(left))),
                    b = dir.write("b.npy", bytes::npy("<f4", "(3, 2)", bytes::of(right))),
                    out = dir.path("c.npy");
  std::vector<float> want(4);
  cpu::matmul(make_matrix_product(dtype::f32), row_major(dtype::f32, left.data(), {2, 3}),
              row_major(dtype::f32, right.data(), {3, 2}), want.data());
  for (const std::string method : {"fixed", "tree", "exact"}) {
    const outcome o = bitfold_cli({"matmul", a, b, "--out", out, "--method", method});
    INFO(method << o.err);
    CHECK(o.status == 0);
    CHECK(o.out == "[2,2]  " + digest_of(want.data(), 16) + "\n");
    CHECK(content(out) == bytes::npy("<f4", "(2, 2)", bytes::of(want)));
  }
  const std::vector<double> wide(want.begin(), want.end());
  const outcome o =
      bitfold_cli({"matmul", a, b, "--out", out, "--bits", "20", "--out-dtype", "f64"});
  CHECK(o.out == "[2,2]  " + digest_of(wide.data(), 32) + "\n");
}

TEST_CASE("matmul refuses what it cannot multiply, and writes nothing then") {
  const bytes::directory dir;
  const std::string a = dir.write("a.npy", bytes::npy("<f4", "(2, 3)", bytes::of(left))),
                    out = dir.path("c.npy");
  const auto refused = [&](std::vector<std::string> arguments, const std::string& what) {
    arguments.insert(arguments.begin(), "matmul");
    const outcome o = bitfold_cli(arguments);
    CHECK(o.status == 2);
    INFO(o.err);
    CHECK(o.err.find(what) != std::string::npos);
    CHECK(!std::filesystem::exists(out));
  };
  refused({a, a, "--out", out}, "b: columns of 2 elements for rows of 3");
  refused({a, "--out", out}, "FILE: 1 of them");
  refused({a, a, "--out", dir.path("c.txt")}, "the result is a .npy file");
  refused({a, a, "--out", a}, "--out");
  refused({a, a, "--out", out, "--method", "tree", "--bits", "20"}, "bits: of method fixed");
  refused({a, a, "--out", out, "--bits", "7"}, "bits: 7");
  refused({a, a, "--out", out, "--bits", "59"}, "bits: 59 is not from 8 to 58");
  refused({a, a, "--out", out, "--out-dtype", "bf16"}, "bf16");
  CHECK(content(a) == bytes::npy("<f4", "(2, 3)", bytes::of(left)));
}
