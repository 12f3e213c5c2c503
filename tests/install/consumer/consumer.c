#include <mhc/mhc.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  printf("C: mhc %s\n", mhc_version());
  return strcmp(mhc_version(), MHC_VERSION_STRING) != 0 || mhc_last_error() == NULL;
}
