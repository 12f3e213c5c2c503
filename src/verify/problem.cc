#include "verify/problem.h"

#include <cmath>
#include <cstring>

#include "verify/problem_of.h"

namespace mhc::verify {
namespace {

std::vector<uint8_t> bytes_of(const Tensor& t) {
  const size_t element = static_cast<size_t>(size_of(t.dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(t.elements()) * element);
  uint8_t* out = bytes.data();
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
    const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
    std::memcpy(out, static_cast<const uint8_t*>(t.data) + offset * static_cast<int64_t>(element),
                element);
    out += element;
  });
  return bytes;
}

void set_bytes(const Tensor& t, const std::vector<uint8_t>& bytes) {
  const size_t element = static_cast<size_t>(size_of(t.dtype));
  const uint8_t* in = bytes.data();
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
    const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
    std::memcpy(static_cast<uint8_t*>(t.data) + offset * static_cast<int64_t>(element), in,
                element);
    in += element;
  });
}

}  // namespace

std::unique_ptr<Problem> Problem::make(const Case& c) {
  for (const auto make : {make_streaming_problem, make_pre_problem, make_coefficients_problem}) {
    if (std::unique_ptr<Problem> made = make(c)) return made;
  }
  return nullptr;
}

Problem::Held& Problem::hold(const char* name, Buffer buffer, bool read, bool written) {
  held_.emplace_back();
  Held& h = held_.back();
  h.name = name;
  h.buffer = std::move(buffer);
  h.read = read;
  h.written = written;
  return h;
}

Buffer Problem::make_buffer(DType type, std::vector<int64_t> shape, bool activation) {
  Padding padding;
  if (activation) {
    if (shape.size() == 3) padding = case_.padding;
    if (shape.size() == 2) padding.row = case_.padding.row;
  }
  return Buffer(type, std::move(shape), case_.placement, padding);
}

Tensor Problem::normal(const char* name, DType type, std::vector<int64_t> shape, double scale,
                       double mean) {
  const Tensor t =
      hold(name, make_buffer(type, std::move(shape), false), true, false).buffer.tensor();
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
    t.store(mean + scale * random_.normal(), i, j, k);
  });
  return t;
}

Tensor Problem::uniform(const char* name, DType type, std::vector<int64_t> shape, double low,
                        double high) {
  const Tensor t =
      hold(name, make_buffer(type, std::move(shape), false), true, false).buffer.tensor();
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
    t.store(low + (high - low) * random_.uniform(), i, j, k);
  });
  return t;
}

Tensor Problem::activation(const char* name, int64_t planes) {
  const Dims& d = case_.dims;
  std::vector<int64_t> shape = planes == 0 ? std::vector<int64_t>{d.tokens, d.embedding}
                                           : std::vector<int64_t>{d.tokens, planes, d.embedding};
  const Tensor t = hold(name, make_buffer(case_.dtype, shape, true), true, false).buffer.tensor();
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
    const double stream =
        planes == 0 ? 1 : 0.6 + 0.3 * static_cast<double>(j % 5);  // streams differ
    t.store(case_.value_scale * stream * (random_.normal() + 0.1), i, j, k);
  });
  return t;
}

Tensor Problem::cotangent(const char* name, int64_t planes) {
  if (!case_.broadcast || case_.dims.tokens == 0) return activation(name, planes);
  const int64_t tokens = case_.dims.tokens;
  case_.dims.tokens = 1;
  Tensor t = activation(name, planes);
  case_.dims.tokens = tokens;
  t.shape[0] = tokens;
  t.stride[0] = 0;
  return t;
}

Tensor Problem::output(const char* name, int32_t index, DType type, std::vector<int64_t> shape,
                       bool activation) {
  if (!wanted(index)) return {};
  return hold(name, make_buffer(type, std::move(shape), activation), false, true).buffer.tensor();
}

Tensor Problem::gradient(const char* name, int32_t index, DType parameter,
                         std::vector<int64_t> shape) {
  if (!wanted(index)) return {};
  const DType type = case_.narrow_gradients && !case_.accumulate ? parameter : gate_type();
  const Tensor t = hold(name, make_buffer(type, std::move(shape), false), case_.accumulate, true)
                       .buffer.tensor();
  if (!case_.accumulate) return t;
  for_each_index(t, [&](int64_t i, int64_t j, int64_t k) { t.store(random_.normal(), i, j, k); });
  return t;
}

Tensor Problem::alias(const char* name, const char* input_name) {
  for (Held& h : held_) {
    if (h.name != input_name) continue;
    h.written = true;
    h.name += std::string(" = ") + name;
    return h.buffer.tensor();
  }
  return {};
}

Params Problem::parameters(const GateLayout& layout, bool with_gates) {
  const int64_t n = case_.dims.streams, count = case_.dims.embedding, m = layout.coefficients();
  const DType type = param_type();
  Params p;
  const double scale = 1 / std::sqrt(static_cast<double>(n * count));
  p.phi = normal("phi", type, {m, n, count}, scale * 1.1);
  if (case_.norm_weight) p.norm_weight = normal("norm_weight", type, {n, count}, 0.3, 1);
  if (!with_gates) return p;
  // Each parameter may have a type of its own: alpha always has the other one.
  const DType other = case_.param_dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
  p.alpha = uniform("alpha", case_.dtype == DType::kF64 ? DType::kF64 : other, {layout.groups()},
                    0.7 * case_.gate_scale, 1.3 * case_.gate_scale);
  p.bias = normal("bias", type, {m}, 0.5 * case_.gate_scale);
  for (int64_t l = 0; l < layout.res && case_.peak != 0; ++l) {
    const bool leads = layout.res == n * n ? l % (n + 1) == 0 : l == 0;
    if (leads) p.bias.store(p.bias.load(2 * n + l) + case_.peak, 2 * n + l);
  }
  return p;
}

void Problem::remember() {
  for (Held& h : held_) h.before = h.read ? bytes_of(h.buffer) : std::vector<uint8_t>{};
}

void Problem::restore() {
  for (Held& h : held_) {
    if (!h.written) continue;
    h.buffer.poison();
    if (h.read) set_bytes(h.buffer, h.before);
  }
}

Status Problem::run(const Runtime& runtime) {
  restore();
  MHC_RETURN_IF_ERROR(prepare(runtime));
  const size_t bytes = workspace_bytes(runtime);
  const Buffer memory(DType::kF32, {static_cast<int64_t>((bytes + 3) / 4)}, case_.placement);
  const Status status = call(runtime, {memory.tensor().data, bytes});
  const std::string damage = memory.damage();
  if (status.ok() && !damage.empty()) {
    return Status::error(StatusCode::kInvalidArgument, "workspace of %zu bytes: %s", bytes,
                         damage.c_str());
  }
  return status;
}

void Problem::run_reference() {
  restore();
  call_reference();
}

std::string Problem::damage() const {
  for (const Held& h : held_) {
    const std::string damage = h.buffer.damage();
    if (!damage.empty()) return h.name + ": " + damage;
    if (!h.written && h.before != bytes_of(h.buffer)) return h.name + ": an input was changed";
  }
  return {};
}

std::vector<uint8_t> Problem::bits() const {
  std::vector<uint8_t> all;
  for (const Output& o : outputs()) {
    const std::vector<uint8_t> own = bytes_of(o.tensor);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Tensor Problem::input(const std::string& name) const {
  for (const Held& h : held_) {
    if (h.name == name) return h.buffer.tensor();
  }
  return {};
}

}  // namespace mhc::verify
