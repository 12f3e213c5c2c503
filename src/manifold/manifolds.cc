#include <array>
#include <cstring>

#include "manifold/list.h"
#include "manifold/spec.h"

namespace mhc {
namespace {

template <class M>
constexpr ManifoldInfo info_of() {
  return {M::id,        M::name,    M::summary,       M::max_streams,
          M::marginals, &M::logits, &M::scratch_size, &M::marginal_tolerance};
}

template <class... Ms>
constexpr auto table_of(TypeList<Ms...>) {
  return std::array<ManifoldInfo, sizeof...(Ms)>{info_of<Ms>()...};
}

constexpr auto kTable = table_of(Manifolds{});

}  // namespace

const ManifoldInfo* manifold_at(int32_t index) {
  return index >= 0 && static_cast<size_t>(index) < kTable.size()
             ? &kTable[static_cast<size_t>(index)]
             : nullptr;
}

const ManifoldInfo* find_manifold(int32_t id) {
  for (const ManifoldInfo& m : kTable) {
    if (m.id == id) return &m;
  }
  return nullptr;
}

const ManifoldInfo* find_manifold(const char* name) {
  for (const ManifoldInfo& m : kTable) {
    if (name != nullptr && std::strcmp(m.name, name) == 0) return &m;
  }
  return nullptr;
}

GateLayout gate_layout(const Spec& spec, GateKind kind) {
  if (kind == GateKind::kHead) return {spec.streams, 0, 0};
  const ManifoldInfo* manifold = find_manifold(spec.manifold);
  return {spec.streams, spec.streams, manifold == nullptr ? 0 : manifold->logits(spec.streams)};
}

}  // namespace mhc
