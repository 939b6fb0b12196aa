// The compiled half of fmt, made from its own headers: the functions and templates that
// <fmt/format.h> only declares unless FMT_HEADER_ONLY is set. The extern templates that it lists at
// its end are instantiated here for char; wchar_t is not used.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE
