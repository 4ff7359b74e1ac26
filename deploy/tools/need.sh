# shellcheck shell=bash
# Sourced by the scripts of deploy/tools and deploy/kafka: what a machine must have, and what to say
# when it has not.

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# install_command WHAT prints the command that installs java, maven or npm with this machine's packages.
install_command() {
  local sudo='' v jdk=openjdk-17-jdk-headless
  [ "$(id -u)" = 0 ] || sudo='sudo '
  if command -v apt-get >/dev/null; then
    for v in 17 21 25; do # the first that this release has; an empty package list answers none
      if apt-cache show "openjdk-$v-jdk-headless" >/dev/null 2>&1; then jdk=openjdk-$v-jdk-headless; break; fi
    done
    case $1 in
      java) echo "${sudo}apt-get install -y $jdk" ;;
      maven) echo "${sudo}apt-get install -y $jdk maven" ;;
      npm) echo "${sudo}apt-get install -y npm" ;;
    esac
  elif command -v dnf >/dev/null; then
    case $1 in
      java) echo "${sudo}dnf install -y java-latest-openjdk-headless" ;;
      maven) echo "${sudo}dnf install -y java-latest-openjdk-devel maven" ;;
      npm) echo "${sudo}dnf install -y nodejs-npm" ;;
    esac
  elif command -v apk >/dev/null; then
    case $1 in
      java) echo "${sudo}apk add openjdk17-jre-headless" ;;
      maven) echo "${sudo}apk add openjdk17-jdk maven" ;;
      npm) echo "${sudo}apk add npm" ;;
    esac
  else
    case $1 in
      java) echo "brew install openjdk@17" ;;
      maven) echo "brew install openjdk@17 maven" ;;
      npm) echo "brew install node" ;;
    esac
  fi
}

# need_java ends the script unless a Java of 17 or newer answers: Apache Kafka 4 runs on no older one.
need_java() {
  local major
  # A stub on the path (macOS has one) answers without a version, so the version is what counts.
  major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1 || true)
  if [ -z "$major" ]; then
    die "Apache Kafka needs Java 17 or newer and there is none. Install it with: $(install_command java)"
  fi
  if [ "$major" -lt 17 ]; then
    die "Apache Kafka needs Java 17 or newer and this is Java $major. Install it with: $(install_command java)"
  fi
}

need_maven() {
  command -v mvn >/dev/null ||
    die "Maven brings the Kafka jars and there is none. Install it with: $(install_command maven)"
}

# sha256_check LIST checks the files of LIST (as sha256sum prints it) in the current folder, quietly.
sha256_check() {
  if command -v sha256sum >/dev/null; then
    sha256sum --check --quiet --strict "$1" >&2
  else
    shasum -a 256 --check --quiet --strict "$1" >&2
  fi
}

sha256_of() {
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}
