# Writes a C++ source that holds the profiles of processors, each a file of a folder.
# cmake -D profiles=<folder> -D output=<file> -P make_built_in_profiles.cmake
file(GLOB files ${profiles}/*.json)
list(SORT files)
set(rows)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} json)
  string(APPEND rows "    BuiltInProfile{\"${name}\", R\"tsq_profile(${json})tsq_profile\"},\n")
endforeach()
file(WRITE ${output}.tmp "#include \"backends/kernels/built_in_profiles.h\"\n\n#include <array>\n\nnamespace tsq::kernels {\n
std::span<const BuiltInProfile> built_in_profiles() {\n  static constexpr std::array kProfiles{\n${rows}  };\n  return kProfiles;\n}\n
}  // namespace tsq::kernels\n")
file(RENAME ${output}.tmp ${output})
