# Writes a C++ source that holds the page: index.html with the files that files.txt lists put in.
# cmake -D page=<folder> -D output=<file> -P make_page_template.cmake
file(STRINGS ${page}/files.txt names)
file(READ ${page}/index.html html)
set(styles)
set(scripts)
set(licences)
foreach(name ${names})
  file(READ ${page}/${name} text)
  if(name MATCHES "\\.css$")
    string(APPEND styles "${text}")
  elseif(name MATCHES "\\.js$")
    string(APPEND scripts "<script>\n${text}</script>\n")
  else()
    string(REPLACE "&" "&amp;" text "${text}")
    string(REPLACE "<" "&lt;" text "${text}")
    string(APPEND licences "${text}\n\n")
  endif()
endforeach()
string(REPLACE "<!--tsq:styles-->" "<style>\n${styles}</style>" html "${html}")
string(REPLACE "<!--tsq:scripts-->" "${scripts}" html "${html}")
string(REPLACE "<!--tsq:licences-->"
               "<details><summary>Licences of the libraries in this page</summary><pre>${licences}</pre></details>" html "${html}")
file(WRITE ${output}.tmp "#include \"report/page_template.h\"\n\nnamespace tsq::report {\n
std::string_view page_template() {\n  static const std::string_view kPage = R\"tsq_page(${html})tsq_page\";\n  return kPage;\n}\n
}  // namespace tsq::report\n")
file(RENAME ${output}.tmp ${output})
