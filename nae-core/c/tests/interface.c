/* What C can do to the library on a host:

     interface score MODEL IMAGES    prints the bits of energy, p-value and threshold, and the verdict, image by image
     interface refuse MODEL          NULL, wrong lengths and addresses, and what is not opened: each is refused
     interface damage MODEL          cut and altered models: refused, or run without leaving the arena or the file

   The status is 0 where all went as it should. */

/* For mmap. */
#define _DEFAULT_SOURCE
#include "nae_core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD 0xA5A5A5A5u

static uint8_t *bytes;
static size_t length;

static void expect(int holds, const char *what, int line) {
  if (!holds) {
    fprintf(stderr, "line %d: %s\n", line, what);
    exit(1);
  }
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  EXPECT(file != NULL);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *content = malloc(*size);
  EXPECT(content != NULL && fread(content, 1, *size, file) == *size);
  fclose(file);
  return content;
}

static uint32_t bits(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

/* An arena with a guard at either end. */
static uint32_t *guarded(size_t words) {
  uint32_t *arena = malloc((words + 2) * sizeof *arena);
  EXPECT(arena != NULL);
  arena[0] = arena[words + 1] = GUARD;
  return arena + 1;
}

static void release(uint32_t *arena, size_t words) {
  EXPECT(arena[-1] == GUARD && arena[words] == GUARD);
  free(arena - 1);
}

static void score(const char *path) {
  size_t size;
  uint8_t *images = read_file(path, &size);
  nae_core_model model, copy;
  nae_core_info info;
  EXPECT(nae_core_open(&model, bytes, length) == NAE_CORE_STATUS_OK);
  EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_OK);
  EXPECT(info.image_len == info.channels * info.height * info.width && info.calibration_count > 0);
  EXPECT(info.is_prepared == 0);
  EXPECT(info.operations > info.multiply_accumulates && info.multiply_accumulates > 0 && info.low == 0 && info.high == 1);
  uint32_t *arena = guarded(info.arena_words_u8);
  for (size_t at = 0; at < size; at += info.image_len) {
    nae_core_score first, second;
    float p_value;
    const uint8_t *pixels = images + at;
    EXPECT(nae_core_score_u8(&model, pixels, info.image_len, arena, info.arena_words_u8, &first) == NAE_CORE_STATUS_OK);
    /* The same by values, from a copy of the model, in the shorter arena. */
    copy = model;
    uint32_t *shorter = guarded(info.arena_words);
    if (info.is_int8) {
      int8_t *values = malloc(info.image_len);
      for (size_t i = 0; i < info.image_len; i++)
        values[i] = (int8_t)(roundf((float)pixels[i] / 255 / info.scale) + (float)info.zero_point);
      EXPECT(nae_core_score_i8(&copy, values, info.image_len, shorter, info.arena_words, &second) == NAE_CORE_STATUS_OK);
      free(values);
    } else {
      float *values = malloc(info.image_len * sizeof *values);
      for (size_t i = 0; i < info.image_len; i++) values[i] = (float)pixels[i] / 255;
      EXPECT(nae_core_score_f32(&copy, values, info.image_len, shorter, info.arena_words, &second) == NAE_CORE_STATUS_OK);
      free(values);
    }
    release(shorter, info.arena_words);
    EXPECT(bits(first.energy) == bits(second.energy) && first.anomaly == second.anomaly);
    EXPECT(nae_core_p_value(&model, first.energy, &p_value) == NAE_CORE_STATUS_OK && p_value == first.p_value);
    EXPECT(first.threshold == info.threshold && first.anomaly == (first.energy > info.threshold));
    printf("%08x %08x %08x %s\n", bits(first.energy), bits(first.p_value), bits(first.threshold),
           first.anomaly == 1 ? "anomaly" : first.anomaly == 0 ? "normal" : "unknown");
  }
  release(arena, info.arena_words_u8);
  free(images);
}

static void refuse(void) {
  static nae_core_model model, closed;
  static nae_core_alarm alarm;
  static nae_core_info info, untouched;
  nae_core_score value = {7, 7, 7, 7};
  float number = 7;
  bool is_on = true;

  EXPECT(nae_core_open(NULL, bytes, length) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_open(&model, bytes, length) == NAE_CORE_STATUS_OK);
  /* A second opening that fails closes the model. */
  EXPECT(nae_core_open(&model, NULL, length) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(nae_core_open((nae_core_model *)((char *)&model + 4), bytes, length) == NAE_CORE_STATUS_ALIGNMENT);
  /* A model that is not aligned is not touched, and refused by every function. */
  static nae_core_model room[2], before[2];
  memset(room, 0x5A, sizeof room);
  memcpy(before, room, sizeof room);
  nae_core_model *crooked = (nae_core_model *)((char *)room + 4);
  EXPECT(nae_core_open(crooked, bytes, length) == NAE_CORE_STATUS_ALIGNMENT);
  EXPECT(memcmp(room, before, sizeof room) == 0);
  EXPECT(nae_core_describe(crooked, &info) == NAE_CORE_STATUS_ALIGNMENT);
  EXPECT(nae_core_open(&model, bytes, SIZE_MAX) == NAE_CORE_STATUS_LENGTH);
  EXPECT(nae_core_open(&model, bytes, 0) == NAE_CORE_STATUS_LENGTH);
  EXPECT(nae_core_open(&model, bytes, length - 1) == NAE_CORE_STATUS_LENGTH);
  uint8_t *shifted = malloc(length + 1);
  memcpy(shifted + 1, bytes, length);
  EXPECT(nae_core_open(&model, shifted + 1, length) == NAE_CORE_STATUS_ALIGNMENT);
  EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_NOT_READY);
  free(shifted);

  EXPECT(nae_core_open(&model, bytes, length) == NAE_CORE_STATUS_OK);
  EXPECT(nae_core_describe(NULL, &info) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_describe(&model, NULL) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_describe(&closed, &info) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(memcmp(&info, &untouched, sizeof info) == 0);
  EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_OK);

  const size_t len = info.image_len, words = info.arena_words_u8;
  uint8_t *pixels = calloc(len + 1, 1);
  int8_t *values = calloc(len, 1);
  float *floats = calloc(len + 1, sizeof *floats);
  uint32_t *arena = guarded(words);
#define U8(model, pixels, len, arena, words, score) nae_core_score_u8(model, pixels, len, arena, words, score)
  EXPECT(U8(NULL, pixels, len, arena, words, &value) == NAE_CORE_STATUS_NULL);
  EXPECT(U8(&closed, pixels, len, arena, words, &value) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(U8(&model, NULL, len, arena, words, &value) == NAE_CORE_STATUS_NULL);
  EXPECT(U8(&model, pixels, len, NULL, words, &value) == NAE_CORE_STATUS_NULL);
  EXPECT(U8(&model, pixels, len, arena, words, NULL) == NAE_CORE_STATUS_NULL);
  EXPECT(U8(&model, pixels, len + 1, arena, words, &value) == NAE_CORE_STATUS_IMAGE_LENGTH);
  EXPECT(U8(&model, pixels, len - 1, arena, words, &value) == NAE_CORE_STATUS_IMAGE_LENGTH);
  EXPECT(U8(&model, pixels, 0, arena, words, &value) == NAE_CORE_STATUS_IMAGE_LENGTH);
  EXPECT(U8(&model, pixels, len, arena, words - 1, &value) == NAE_CORE_STATUS_ARENA_LENGTH);
  EXPECT(U8(&model, pixels, len, arena, 0, &value) == NAE_CORE_STATUS_ARENA_LENGTH);
  EXPECT(U8(&model, pixels, len, (uint32_t *)((char *)arena + 2), words, &value) == NAE_CORE_STATUS_ALIGNMENT);
  EXPECT(U8(&model, (uint8_t *)arena, len, arena, words, &value) == NAE_CORE_STATUS_OVERLAP);
  EXPECT(U8(&model, (uint8_t *)(arena + words) - 1, len, arena, words, &value) == NAE_CORE_STATUS_OVERLAP);
  /* The arena may touch the model's bytes, the model and the score, and overlaps none of them. */
  uint8_t *around = malloc(4 * words + length + 4 * words);
  memcpy(around + 4 * words, bytes, length);
  nae_core_model other;
  EXPECT(nae_core_open(&other, around + 4 * words, length) == NAE_CORE_STATUS_OK);
  EXPECT(U8(&other, pixels, len, (uint32_t *)around, words, &value) == NAE_CORE_STATUS_OK);
  EXPECT(U8(&other, pixels, len, (uint32_t *)(around + 4), words, &value) == NAE_CORE_STATUS_OVERLAP);
  EXPECT(U8(&other, pixels, len, (uint32_t *)(around + 4 * words + length), words, &value) == NAE_CORE_STATUS_OK);
  EXPECT(U8(&other, pixels, len, (uint32_t *)(around + 4 * words + length - 4), words, &value) == NAE_CORE_STATUS_OVERLAP);
  free(around);
  struct {
    nae_core_model model;
    uint32_t words[];
  } *beside = malloc(sizeof *beside + 4 * words + sizeof value);
  beside->model = model;
  nae_core_score *behind = (nae_core_score *)(beside->words + words);
  EXPECT(U8(&beside->model, pixels, len, beside->words, words, behind) == NAE_CORE_STATUS_OK);
  EXPECT(U8(&beside->model, pixels, len, beside->words, words, behind - 1) == NAE_CORE_STATUS_OVERLAP);
  EXPECT(U8(&beside->model, pixels, len, beside->words - 1, words, behind) == NAE_CORE_STATUS_OVERLAP);
  free(beside);
  /* What goes beyond the words that are needed is not looked at. */
  EXPECT(U8(&model, pixels, len, arena, SIZE_MAX, &value) == NAE_CORE_STATUS_OK);
  /* A model that takes floats is not given bytes, nor the reverse. */
  value.energy = 7;
  nae_core_status right = NAE_CORE_STATUS_OK, wrong = NAE_CORE_STATUS_IMAGE_TYPE;
  EXPECT(nae_core_score_i8(NULL, values, len, arena, words, &value) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_score_f32(NULL, floats, len, arena, words, &value) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_score_f32(&model, (float *)((char *)floats + 2), len, arena, words, &value) ==
         NAE_CORE_STATUS_ALIGNMENT);
  EXPECT(nae_core_score_i8(&model, values, len, arena, info.arena_words - 1, &value) == NAE_CORE_STATUS_ARENA_LENGTH);
  EXPECT(value.energy == 7);
  EXPECT(nae_core_score_i8(&model, values, len, arena, words, &value) == (info.is_int8 ? right : wrong));
  EXPECT(nae_core_score_f32(&model, floats, len, arena, words, &value) == (info.is_int8 ? wrong : right));
  if (!info.is_int8) {
    floats[len - 1] = NAN;
    EXPECT(nae_core_score_f32(&model, floats, len, arena, words, &value) == NAE_CORE_STATUS_NON_FINITE);
  }
  release(arena, words);

  EXPECT(nae_core_p_value(NULL, 1, &number) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_p_value(&model, 1, NULL) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_p_value(&closed, 1, &number) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(nae_core_p_value(&model, INFINITY, &number) == NAE_CORE_STATUS_NON_FINITE);
  EXPECT(nae_core_threshold(NULL, 0.1f, &number) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_threshold(&model, 0.1f, NULL) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_threshold(&closed, 0.1f, &number) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(nae_core_threshold(&model, 0, &number) == NAE_CORE_STATUS_RATE);
  EXPECT(nae_core_threshold(&model, NAN, &number) == NAE_CORE_STATUS_RATE);
  EXPECT(nae_core_threshold(&model, 1e-6f, &number) == NAE_CORE_STATUS_RATE_TOO_LOW);
  EXPECT(number == 7);
  EXPECT(nae_core_threshold(&model, info.false_positive_rate, &number) == NAE_CORE_STATUS_OK);
  EXPECT(number == info.threshold);

  EXPECT(nae_core_alarm_observe(&alarm, 1, &is_on) == NAE_CORE_STATUS_NOT_READY);
  EXPECT(nae_core_alarm_start(NULL, 2, 0, 3) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_alarm_start(&alarm, 0, 0, 3) == NAE_CORE_STATUS_ALARM_SETTINGS);
  EXPECT(nae_core_alarm_start(&alarm, 2, 2, 3) == NAE_CORE_STATUS_ALARM_SETTINGS);
  EXPECT(nae_core_alarm_start(&alarm, 4, 0, 3) == NAE_CORE_STATUS_ALARM_SETTINGS);
  EXPECT(nae_core_alarm_start(&alarm, 2, 0, NAE_CORE_ALARM_WINDOW_MAX + 1) == NAE_CORE_STATUS_ALARM_SETTINGS);
  EXPECT(nae_core_alarm_start(&alarm, 2, 0, SIZE_MAX) == NAE_CORE_STATUS_ALARM_SETTINGS);
  EXPECT(nae_core_alarm_observe(&alarm, 1, &is_on) == NAE_CORE_STATUS_NOT_READY && is_on);
  EXPECT(nae_core_alarm_start(&alarm, NAE_CORE_ALARM_WINDOW_MAX, 0, NAE_CORE_ALARM_WINDOW_MAX) == NAE_CORE_STATUS_OK);
  for (size_t i = 1; i <= 2 * NAE_CORE_ALARM_WINDOW_MAX; i++)
    EXPECT(nae_core_alarm_observe(&alarm, 1, &is_on) == NAE_CORE_STATUS_OK && is_on == (i >= NAE_CORE_ALARM_WINDOW_MAX));
  /* On at 2 of the last 3, off when none is left. */
  EXPECT(nae_core_alarm_start(&alarm, 2, 0, 3) == NAE_CORE_STATUS_OK);
  EXPECT(nae_core_alarm_observe(NULL, 1, &is_on) == NAE_CORE_STATUS_NULL);
  EXPECT(nae_core_alarm_observe(&alarm, 1, NULL) == NAE_CORE_STATUS_NULL);
  const int32_t verdicts[] = {1, 0, 1, -1, 0, 2};
  const bool states[] = {false, false, true, true, true, false};
  for (size_t i = 0; i < 6; i++)
    EXPECT(nae_core_alarm_observe(&alarm, verdicts[i], &is_on) == NAE_CORE_STATUS_OK && is_on == states[i]);

  EXPECT(strcmp(nae_core_status_text(NAE_CORE_STATUS_NULL), "a pointer is NULL") == 0);
  EXPECT(strcmp(nae_core_status_text(-1), "unknown status") == 0);
  EXPECT(strlen(nae_core_version()) >= 5);
  free(pixels);
  free(values);
  free(floats);
}

/* A copy of `size` bytes that ends where memory ends: a read beyond it faults. */
static uint8_t *at_the_edge(const uint8_t *content, size_t size, size_t *mapped) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t room = (size + page - 1) / page * page;
  *mapped = room + page;
  uint8_t *start = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(start != MAP_FAILED && mprotect(start + room, page, PROT_NONE) == 0);
  memcpy(start + room - size, content, size);
  return start + room - size;
}

/* The length and the checksum of a header that was altered. */
static void mend(uint8_t *file, uint32_t size) {
  static uint32_t table[256];
  for (uint32_t i = 0; i < 256 && table[255] == 0; i++) {
    table[i] = i;
    for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
  }
  uint32_t crc = UINT32_MAX;
  for (size_t at = 20; at < size; at++) crc = crc >> 8 ^ table[(crc ^ file[at]) & 255];
  crc = ~crc;
  for (int i = 0; i < 4; i++) {
    file[12 + i] = (uint8_t)(size >> 8 * i);
    file[16 + i] = (uint8_t)(crc >> 8 * i);
  }
}

/* Opens what may be anything; if it opens and is not too much, runs it. Whether it ran. */
static int try_to_run(const uint8_t *file, size_t size) {
  size_t mapped;
  uint8_t *copy = at_the_edge(file, size, &mapped);
  uint8_t *start = copy + size - (size + (size_t)sysconf(_SC_PAGESIZE) - 1) / (size_t)sysconf(_SC_PAGESIZE) *
                                     (size_t)sysconf(_SC_PAGESIZE);
  nae_core_model model;
  nae_core_info info;
  nae_core_status status = nae_core_open(&model, copy, size);
  int ran = 0;
  if (status == NAE_CORE_STATUS_OK) {
    EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_OK);
    if (info.arena_words_u8 < 1 << 20 && info.image_len < 1 << 20 && info.operations < 1 << 24) {
      uint32_t *arena = guarded(info.arena_words_u8);
      uint8_t *pixels = malloc(info.image_len);
      for (size_t i = 0; i < info.image_len; i++) pixels[i] = (uint8_t)(37 * i);
      nae_core_score value;
      status = nae_core_score_u8(&model, pixels, info.image_len, arena, info.arena_words_u8, &value);
      EXPECT(status == NAE_CORE_STATUS_OK ? isfinite(value.energy) : status == NAE_CORE_STATUS_OVERFLOW);
      ran = 1;
      free(pixels);
      release(arena, info.arena_words_u8);
    }
  } else {
    EXPECT(status >= NAE_CORE_STATUS_NOT_A_MODEL && status <= NAE_CORE_STATUS_OPERATORS);
    EXPECT(nae_core_describe(&model, &info) == NAE_CORE_STATUS_NOT_READY);
  }
  munmap(start, mapped);
  return ran;
}

static void damage(void) {
  int ran = 0, tried = 0;
  uint8_t *file = malloc(length);
  EXPECT(try_to_run(bytes, length) == 1);
  /* Cut by words, with and without a header that knows: near the ends everywhere, and in between here and there. */
  for (size_t size = 4; size < length; size += size < 4096 || size > length - 512 ? 4 : 4 * 997) {
    EXPECT(!try_to_run(bytes, size));
    if (size >= 20) {
      memcpy(file, bytes, size);
      mend(file, (uint32_t)size);
      EXPECT(!try_to_run(file, size));
    }
  }
  /* One to three bytes altered, mostly in the header, the layers and the calibration, the checksum right again. */
  uint32_t noise = 1;
  for (tried = 0; tried < 3000; tried++) {
    memcpy(file, bytes, length);
    for (int count = tried % 3; count >= 0; count--) {
      noise = noise * 1664525u + 1013904223u;
      const size_t among = tried % 4 ? 1200 : length;
      const size_t at = (noise >> 8) % among;
      noise = noise * 1664525u + 1013904223u;
      file[at] = (uint8_t)(noise >> 24);
    }
    if (tried % 5) mend(file, (uint32_t)length);
    ran += try_to_run(file, length);
  }
  EXPECT(ran > 100 && ran < tried);
  printf("%d of %d altered models ran", ran, tried);
  free(file);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  bytes = read_file(argv[2], &length);
  if (strcmp(argv[1], "score") == 0 && argc == 4) score(argv[3]);
  else if (strcmp(argv[1], "refuse") == 0) refuse();
  else if (strcmp(argv[1], "damage") == 0) damage();
  else return 2;
  free(bytes);
  return 0;
}
