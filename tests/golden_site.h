#pragma once
// A site (and head) from a golden file, in the canonical layout whatever its maker's is.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dims.h"
#include "base/dtype.h"
#include "kernels/common/args.h"
#include "manifold/spec.h"

namespace mhc::golden {

using Values = std::vector<double>;

// Arrays of a file by name, widened to double.
class File {
 public:
  explicit File(const std::string& stem) {
    const std::string path = std::string(MHC_SOURCE_DIR) + "/tests/golden/" + stem;
    std::ifstream json(path + ".json"), bin(path + ".bin", std::ios::binary);
    if (!json || !bin) throw std::runtime_error("cannot read " + path);
    index_ = nlohmann::json::parse(json);
    bytes_.assign(std::istreambuf_iterator<char>(bin), {});
  }

  bool has(const std::string& name) const { return index_.contains(name); }
  DType dtype(const std::string& name) const {
    return index_.at(name).at("dtype") == "bf16" ? DType::kBF16 : DType::kF32;
  }
  int64_t extent(const std::string& name, int64_t from_the_back) const {
    const auto& shape = index_.at(name).at("shape");
    return shape.at(shape.size() - static_cast<size_t>(from_the_back)).get<int64_t>();
  }

  Values operator[](const std::string& name) const {
    size_t count = 1;
    for (const auto& extent : index_.at(name).at("shape")) count *= extent.get<size_t>();
    const size_t offset = index_.at(name).at("offset").get<size_t>();
    return visit_dtype(dtype(name), [&](auto tag) {
      using T = decltype(tag);
      if (offset + count * sizeof(T) > bytes_.size()) throw std::runtime_error(name + " is cut");
      Values out(count);
      for (size_t k = 0; k < count; ++k) {
        T element;
        std::memcpy(&element, bytes_.data() + offset + k * sizeof(T), sizeof(T));
        out[k] = to_double(element);
      }
      return out;
    });
  }

 private:
  nlohmann::json index_;
  std::vector<char> bytes_;
};

// [rows, columns] to [columns, rows], for each of `count` matrices.
inline Values transposed(const Values& in, int64_t rows, int64_t columns, int64_t count = 1) {
  Values out(in.size());
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        out[static_cast<size_t>((b * columns + c) * rows + r)] =
            in[static_cast<size_t>((b * rows + r) * columns + c)];
      }
    }
  }
  return out;
}

struct Parameters {
  DType phi_type = DType::kF32,
        gate_type = DType::kF32;         // of phi and norm_weight; of alpha and bias
  Values phi, alpha, bias, norm_weight;  // norm_weight may be empty
};

// Results under the names of the operation's own words; d_layer_output is d_f.
using Results = std::map<std::string, Values>;

struct Site {
  std::string name;
  Spec spec;
  DType activation = DType::kF32;
  Dims dims;
  Values x, f, w, g;
  Parameters params;
  Results expected;

  bool has_head = false;
  Parameters head_params;
  Values g_head;
};

// Names that every maker uses alike.
inline Site common_site(const File& file, const std::string& stem, const Spec& spec) {
  Site site;
  site.name = stem;
  site.spec = spec;
  site.activation = file.dtype("x");
  site.x = file["x"];
  site.f = file["f"];
  site.w = file["w"];
  site.g = file["g"];
  site.dims.streams = file.extent("x", 2);
  site.dims.embedding = file.extent("x", 1);
  site.dims.tokens = static_cast<int64_t>(site.x.size()) / site.dims.flat();
  site.spec.streams = site.dims.streams;
  for (const char* name : {"layer_input", "h_pre", "h_post", "h_res", "x_next", "d_x", "d_f", "d_w",
                           "d_alpha", "d_bias"}) {
    if (file.has(name)) site.expected[name] = file[name];
  }
  return site;
}

// MaxText: [K, n], [K, n], [K, L] beside each other become [m, K]; three scales are alpha.
inline Site maxtext_site(const std::string& stem, const Spec& spec) {
  const File file(stem);
  Site site = common_site(file, stem, spec);
  const int64_t features = site.dims.flat();
  const auto gather = [&](const std::string& prefix, Values* phi, Values* alpha, Values* bias) {
    for (const std::string part : {"pre", "post", "res"}) {
      const std::string weights = prefix + part + "_alpha";
      const Values rows = transposed(file[weights], features, file.extent(weights, 1));
      const Values part_bias = file[prefix + part + "_bias"];
      phi->insert(phi->end(), rows.begin(), rows.end());
      bias->insert(bias->end(), part_bias.begin(), part_bias.end());
      alpha->push_back(file[prefix + part + "_scale"].at(0));
    }
  };
  Parameters& p = site.params;
  p.phi_type = p.gate_type = file.dtype("pre_alpha");
  gather("", &p.phi, &p.alpha, &p.bias);
  p.norm_weight = file["norm_scale"];
  gather("d_", &site.expected["d_phi"], &site.expected["d_alpha"], &site.expected["d_bias"]);
  site.expected["d_norm_weight"] = file["d_norm_scale"];
  return site;
}

// Hugging Face: phi is [m, K] already; a head in the same file.
inline Site hugging_face_site(const std::string& stem, const Spec& spec) {
  const File file(stem);
  Site site = common_site(file, stem, spec);
  site.params.phi = file["phi"];
  site.params.alpha = file["alpha"];
  site.params.bias = file["bias"];
  site.expected["d_phi"] = file["d_phi"];
  site.has_head = true;
  site.head_params.phi = file["head_phi"];
  site.head_params.alpha = file["head_alpha"];
  site.head_params.bias = file["head_bias"];
  site.g_head = file["g_head"];
  for (const char* name : {"head", "head_d_x", "d_head_phi", "d_head_alpha", "d_head_bias"}) {
    site.expected[name] = file[name];
  }
  return site;
}

// Liger: phi is [K, m], h_res is [out, in].
inline Site liger_site(const std::string& stem, const Spec& spec) {
  const File file(stem);
  Site site = common_site(file, stem, spec);
  const int64_t m = file.extent("phi", 1), n = site.dims.streams;
  site.params.phi = transposed(file["phi"], site.dims.flat(), m);
  site.params.alpha = file["alpha"];
  site.params.bias = file["bias"];
  site.expected["d_phi"] = transposed(file["d_phi"], site.dims.flat(), m);
  site.expected["h_res"] = transposed(file["h_res"], n, n, site.dims.tokens);
  return site;
}

}  // namespace mhc::golden
