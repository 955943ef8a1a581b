# cmake -DROOT=… -P readme_shows_the_example.cmake: README's C++ is the example that the tests compile and run, it keeps
# its promised length, and every file that README links to is there.
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/quantize_model/quantize_model.cpp example)

string(FIND "${readme}" "```cpp\n${example}```" shown)
if(shown EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/quantize_model/quantize_model.cpp as it is")
endif()

string(REGEX MATCHALL "\n" lines "${example}")
list(LENGTH lines length)
if(NOT length LESS 40)
  message(FATAL_ERROR "quantize_model.cpp has ${length} lines, README says fewer than 40")
endif()

# A lone bracket would keep CMake from seeing the list's parts.
string(REPLACE "](" "@link " readme "${readme}")
string(REGEX MATCHALL "@link [^)#:\n]+\\)" links "${readme}")
foreach(link ${links})
  string(REGEX REPLACE "^@link (.*)\\)$" "\\1" path "${link}")
  if(NOT EXISTS ${ROOT}/${path})
    message(FATAL_ERROR "README.md links to ${path}, which does not exist")
  endif()
endforeach()
