<?php

// The interface between writeback.conf and a database of SQLite, which has the
// totals of counters.
//
//   GET  ?key=views:1     returns the number from which this counter starts
//   POST [{"key": "views:1", "delta": 5}, ...]
//                         adds the new views to the totals; a batch that
//                         arrives twice is added only once

try {
    $db = new PDO('sqlite:' . $_SERVER['DATABASE'], null, null, [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_TIMEOUT => 5,
    ]);

    $db->exec('CREATE TABLE IF NOT EXISTS counters (
        key   TEXT NOT NULL PRIMARY KEY,
        views INTEGER NOT NULL)');

    $db->exec('CREATE TABLE IF NOT EXISTS batches (
        id    TEXT NOT NULL PRIMARY KEY,
        came  INTEGER NOT NULL)');

    if ($_SERVER['REQUEST_METHOD'] == 'POST') {
        save($db, $_SERVER['HTTP_X_MCDS_BATCH'] ?? '',
            json_decode(file_get_contents('php://input'), true));

        http_response_code(204);

    } else {
        $find = $db->prepare('SELECT views FROM counters WHERE key = ?');
        $find->execute([$_GET['key'] ?? '']);

        echo (int) $find->fetchColumn();
    }

} catch (Throwable $e) {

    // after this status, nginx sends the batch again

    error_log($e->getMessage());
    http_response_code(500);
}


function save($db, $batch, $sums)
{
    if ($batch == '' || !is_array($sums)) {
        throw new Exception('not a batch');
    }

    $db->exec('BEGIN IMMEDIATE');

    $new = $db->prepare('INSERT OR IGNORE INTO batches VALUES (?, ?)');
    $new->execute([$batch, time()]);

    if ($new->rowCount()) {

        $add = $db->prepare('INSERT INTO counters VALUES (?, ?)
            ON CONFLICT (key) DO UPDATE SET views = views + excluded.views');

        foreach ($sums as $sum) {
            $add->execute([$sum['key'], $sum['delta']]);
        }

        // no batch is repeated after this time

        $db->prepare('DELETE FROM batches WHERE came < ?')
            ->execute([time() - 30 * 86400]);
    }

    $db->exec('COMMIT');
}
