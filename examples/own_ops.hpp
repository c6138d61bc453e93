// Operations of one's own and transforms, for the CPU and for GPUs.
#pragma once

#include <bitfold/own.hpp>

#include <cstdint>

// A sum of complex numbers.
struct complex {
  float re, im;
};
struct complex_sum {
  struct state {
    double re, im;
  };
  BITFOLD_HD static state start(complex z) { return {z.re, z.im}; }
  BITFOLD_HD static state merge(state a, state b) { return {a.re + b.re, a.im + b.im}; }
  BITFOLD_HD static complex finish(state s) {
    return {static_cast<float>(s.re), static_cast<float>(s.im)};
  }
};

// The mean of x weighted by w, where the mask is set: a transform of three arrays makes its
// elements.
struct weighted {
  float x, w;
};
struct keep_masked {
  BITFOLD_HD weighted operator()(float x, float w, std::uint8_t mask) const {
    return mask ? weighted{x, w} : weighted{0, 0};
  }
};
struct weighted_mean {
  struct state {
    double wx, w;
  };
  BITFOLD_HD static state start(weighted e) { return {static_cast<double>(e.w) * e.x, e.w}; }
  BITFOLD_HD static state merge(state a, state b) { return {a.wx + b.wx, a.w + b.w}; }
  BITFOLD_HD static double finish(state s) { return s.wx / s.w; }
};

// The log-likelihood of x under normal distributions of means mu and variance 1, up to a constant:
// a transform of two arrays, for bitfold's own sum.
struct log_likelihood {
  BITFOLD_HD double operator()(float x, float mu) const {
    const double d = static_cast<double>(x) - mu;
    return -0.5 * d * d;
  }
};

// The largest score and the label that came with it; of equal scores, that of the smallest label.
struct top_label {
  struct state {
    float score;
    std::int32_t label;
  };
  BITFOLD_HD static state start(float score, float label) {
    return {score, static_cast<std::int32_t>(label)};
  }
  BITFOLD_HD static state merge(state a, state b) {
    if (a.score != b.score) return a.score > b.score ? a : b;
    return a.label < b.label ? a : b;
  }
  BITFOLD_HD static state finish(state s, std::uint64_t) { return s; }
};
