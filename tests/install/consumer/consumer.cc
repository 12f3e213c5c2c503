#include <cstdio>
#include <mhc/mhc.hpp>
#include <string>

int main() {
  std::printf("C++: mhc %s\n", mhc_version());
  return std::string(mhc_version()) != MHC_VERSION_STRING;
}
