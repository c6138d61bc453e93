// The part of the summary that is of products and of ranks.
#pragma once

#include <string>

#include "accuracy/rows.hpp"

namespace bitfold::accuracy {

std::string products_summary(const report_rows& rows);

}  // namespace bitfold::accuracy
