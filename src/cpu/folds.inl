// The folds in vectors, and which of their kernels a target has for a reduction.
#include <bitfold/cpu/engine.inl>
#include "columns.inl"
#include "find.inl"
