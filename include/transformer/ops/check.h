#pragma once
// Checks that every op makes of its operands.

#include <string_view>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Defined and on the context's device; Error names the op and the operand.
void check_operand(Context& ctx, std::string_view op, std::string_view name, const Tensor& t);
// Also of a floating dtype.
void check_float(Context& ctx, std::string_view op, std::string_view name, const Tensor& t);
// Also int32 or int64.
void check_index(Context& ctx, std::string_view op, std::string_view name, const Tensor& t);

}  // namespace transformer
