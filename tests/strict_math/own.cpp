// A file with operations of its own, such as bitfold/reduce.hpp makes.
#include <bitfold/own.hpp>

int main() {}
