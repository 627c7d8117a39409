#pragma once

#include <cstdint>
#include <span>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// to = from, converting the dtype; same number of rows and columns. For loading; no gradient (see ops/shape.h: cast).
void copy_into(Context& ctx, const Tensor& from, Tensor& to);

// Row to_rows[i] of `to` = row from_rows[i] of `from`; same dtype and columns. The rows written are distinct and, where both
// are one tensor, none of them is read. No gradient.
void copy_rows(Context& ctx, const Tensor& from, std::span<const std::int64_t> from_rows, Tensor& to,
               std::span<const std::int64_t> to_rows);

// Row places[i] of `to` = row i of `from`; places: int32 [rows of from] in the context's memory, distinct. No gradient.
void put_rows(Context& ctx, const Tensor& from, const Tensor& places, Tensor& to);

}  // namespace transformer
