// The parts of a trace.dat that describe the traced kernel: the same bytes in version 6, where they
// follow one another, and in version 7, where each is a section of its own.
#pragma once

#include "host-cli/file_cursor.h"
#include "host-cli/trace_dat_reader.h"

namespace vtrace::trace_dat {

inline constexpr std::uint64_t kMaxHeaderText = 64U << 10U;
inline constexpr std::uint64_t kMaxFormat = 1U << 20U;
inline constexpr std::uint64_t kMaxFormats = 64U << 10U;
inline constexpr std::uint64_t kMaxSystems = 16U << 10U;
inline constexpr std::uint64_t kMaxBody = 256U << 20U;  // of all formats, of kallsyms, …
inline constexpr std::uint64_t kMaxOption = 16U << 20U;
inline constexpr std::size_t kMaxOptions = 64U << 10U;
inline constexpr std::size_t kMaxName = 4096;

// Each reads one body at the cursor; errors stay in the cursor.
void read_header_info(FileCursor& in, TraceDatInfo& info);
void read_ftrace_formats(FileCursor& in, TraceDatInfo& info);
void read_event_formats(FileCursor& in, TraceDatInfo& info);
void read_kallsyms(FileCursor& in, TraceDatInfo& info);
void read_printk_formats(FileCursor& in, TraceDatInfo& info);
void read_command_lines(FileCursor& in, TraceDatInfo& info);

// Keeps an option and takes over what is known of it.
void take_option(TraceDatInfo& info, std::uint16_t id, Bytes payload);

// The layout of sub-buffers of `size` bytes: the header_page text may be that of another buffer
// of the same kernel, of which only the size differs.
[[nodiscard]] Result<SubbufLayout> layout_of_size(const TraceDatInfo& info, std::uint32_t size);

// Adds a CPU's place; data beyond the end of the file is cut off with a note.
void add_cpu(TraceDatInfo& info, TraceDatBuffer& buffer, TraceDatCpu cpu, std::uint64_t file_size);

// Reads all of a version 7 file behind its compression's name.
void read_version_7(FileCursor& in, int fd, std::uint64_t file_size, const std::string& shown,
                    TraceDatInfo& info);

}  // namespace vtrace::trace_dat
