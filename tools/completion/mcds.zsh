#compdef mcds

# Copyright (C) mcds authors

_mcds() {
    local curcontext=$curcontext state line
    local -a common commands more

    common=(
        '(-c --conf)'{-c+,--conf=}'[configuration of nginx]:file:_files'
        '(-s --servers)'{-s+,--servers=}'[servers instead of it]:servers:'
        '(-P --prefix)'{-P+,--prefix=}'[of all keys]:text:'
        '(-p --pool)'{-p+,--pool=}'[the pool]:name:'
        '(-j --json)'{-j,--json}'[for programs]'
        '(-t --timeout)'{-t+,--timeout=}'[of an operation]:time:'
        '(-h --help)'{-h,--help}'[print help]'
        '(-V --version)'{-V,--version}'[print the version]'
    )

    commands=(
        'get:what is stored of a page'
        'purge:purge pages, by URL, key, tag or host'
        'counter:read and change counters'
        'visitors:how many there are'
        'top:the keys that come most often'
        'log:lines of all hosts'
        'table:read and change a table'
        'array:read a list, and append'
        'lock:who has a lock; take it away'
        'check:pools, servers, and whether they are well'
        'bench:how fast the servers answer'
        'version:print the version'
        'help:print help'
    )

    _arguments -C -S $common '1:command:->command' '*::argument:->argument'

    case $state in
        command)
            _describe command commands
            return
            ;;
    esac

    case $words[1] in
        get)
            more=('*--key=:text:' '--site=:name:' '*--header=:line:'
                '--body' '*--hmac-key-file=:file:_files' '*:URL:_urls')
            ;;
        purge)
            more=('*--key=:text:' '--site=:name:' '*--tag=:tag:'
                '*--host=:host:_hosts' '--all' '--delete'
                '*--hmac-key-file=:file:_files' '*:URL:_urls')
            ;;
        counter)
            more=('--ttl=:time:' '1:what:(get set add reset)' '*:key:')
            ;;
        visitors)
            more=('--window=:time:' '--slots=:number:' '*:key:')
            ;;
        top)
            more=('--window=:time:' '--slots=:number:' '--limit=:number:'
                '1:name:')
            ;;
        log)
            more=('--since=:time:' '--after=:id:' '--limit=:number:'
                '--chunk=:time:' '--chunks=:number:' '1:what:(read follow)'
                '2:name:')
            ;;
        table)
            more=('--ttl=:time:' '--values' '1:what:(list get add remove)'
                '*:word:')
            ;;
        array)
            more=('--limit=:number:' '1:what:(list push)' '*:word:')
            ;;
        lock)
            more=('1:what:(show free)' '*:key:')
            ;;
        check)
            more=('1:configuration:_files')
            ;;
    esac

    _arguments -S $common $more
}

_mcds "$@"
