#!/usr/bin/env bash
# Links the example with the library:
#
#   build.sh LIBRARY FOLDER [OPTION…]
#
# LIBRARY is libnae_core_c.a of thumbv7em-none-eabihf; FOLDER has digits.h, by `embed`, and gets score.elf. Options go to
# the compiler, which is arm-none-eabi-gcc of Debian's gcc-arm-none-eabi. No C library is needed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$1 folder=$2
shift 2
arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
  -std=c11 -O2 -ffreestanding -ffunction-sections -fdata-sections -Wall -Wextra -Werror -pedantic \
  -I "$here/../.." -I "$folder" -DIMAGES="\"$here/../../../../firmware-example/vectors/digits.u8\"" \
  "$here/board.c" "$here/main.c" "$here/data.S" "$library" \
  -nostdlib -static -T "$here/mps2-an386.ld" -Wl,--gc-sections,-z,noexecstack,--fatal-warnings "$@" -o "$folder/score.elf"
