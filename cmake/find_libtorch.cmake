# Without Torch_DIR or a CMAKE_PREFIX_PATH that holds LibTorch, the wheel in the project's own virtual environment is used.
if(NOT Torch_DIR AND NOT DEFINED ENV{Torch_DIR})
  file(GLOB wheel LIST_DIRECTORIES true ${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake)
  list(APPEND CMAKE_PREFIX_PATH ${wheel})
endif()
