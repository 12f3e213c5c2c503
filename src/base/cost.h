#pragma once
// What one call of an operation moves and computes; the benches, the command and the docs read it.

#include <cstdint>

namespace mhc {

struct Cost {
  double bytes_read = 0;
  double bytes_written = 0;
  double flops_f32 = 0;       // multiply-adds of f32 operands count 2
  double flops_bf16_dot = 0;  // those that the bf16 dot unit does where there is one
  double transcendentals = 0;

  constexpr double bytes() const { return bytes_read + bytes_written; }
  constexpr double flops() const { return flops_f32 + flops_bf16_dot; }
  constexpr Cost operator+(const Cost& o) const {
    return {bytes_read + o.bytes_read, bytes_written + o.bytes_written, flops_f32 + o.flops_f32,
            flops_bf16_dot + o.flops_bf16_dot, transcendentals + o.transcendentals};
  }
};

}  // namespace mhc
