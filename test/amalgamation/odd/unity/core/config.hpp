// The version of a library whose headers do what those of unity seldom do.
#pragma once

#define UNITY_VERSION_MAJOR 7
#define UNITY_VERSION_MINOR 80
#define UNITY_VERSION_PATCH 9
